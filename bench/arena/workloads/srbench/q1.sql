SELECT t AS time, id AS obs, sensor, value, unit FROM now_observation WHERE kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#RainfallObservation>'
