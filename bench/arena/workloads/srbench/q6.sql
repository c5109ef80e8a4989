SELECT t AS time, id AS obs, sensor, kind, value
FROM now_observation
WHERE (kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#VisibilityObservation>' AND value < 10)
  OR (kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#RainfallObservation>' AND value > 30)
  OR (kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#SnowfallObservation>' AND value > 20)
