SELECT d.t AS time, d.id AS obs, p.state_id AS state, sum(p.people) AS people
FROM now_observation d
JOIN place p ON p.sensor = d.sensor
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND d.value > 74
GROUP BY d.t, d.id, p.state_id
