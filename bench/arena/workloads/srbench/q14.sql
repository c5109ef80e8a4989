SELECT d.t AS time, d.id AS obs, a.airport, d.value
FROM now_observation d
JOIN airport a ON a.sensor = d.sensor
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#VisibilityObservation>' AND d.value < 10
