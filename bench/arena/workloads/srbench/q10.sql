SELECT d.t AS time, d.id AS obs, p.place, p.state, d.value
FROM now_observation d
JOIN place p ON p.sensor = d.sensor
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#SnowfallObservation>' AND d.value > 20
