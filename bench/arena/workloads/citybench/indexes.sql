CREATE INDEX property_id ON property(id, class);
CREATE INDEX place_property ON place(property);
CREATE INDEX reading_t ON reading(t)
