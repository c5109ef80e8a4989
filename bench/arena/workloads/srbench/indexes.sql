CREATE INDEX place_sensor ON place(sensor);
CREATE INDEX neighbor_sensor ON neighbor(sensor);
CREATE INDEX airport_sensor ON airport(sensor);
CREATE INDEX site_sensor ON site(sensor);
CREATE INDEX observation_sensor ON observation(sensor, kind);
CREATE INDEX observation_t ON observation(t)
