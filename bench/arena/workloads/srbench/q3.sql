SELECT t AS time, id AS obs, sensor, value FROM now_observation WHERE kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND value > 74
