CREATE INDEX place_sensor ON place(sensor);
CREATE INDEX observation_sensor ON observation(sensor, kind);
CREATE INDEX observation_t ON observation(t)
