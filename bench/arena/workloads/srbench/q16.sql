SELECT d.t AS time, s.site, d.id AS obs, d.sensor
FROM now_observation d
JOIN site s ON s.sensor = d.sensor
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND d.value > 74
