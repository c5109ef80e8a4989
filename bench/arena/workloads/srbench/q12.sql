-- An hour ends where a multiple of 10 s is among the new times.
SELECT h.t AS time, p.place, CAST(floor(1000.0 * sum(o.value) / count(*) + 0.5) AS BIGINT) AS average
FROM (SELECT max(t) - max(t) % 10000 AS t, min(t) AS begins FROM now_observation) h
JOIN observation o ON o.t <= h.t AND o.t > h.t - 10000
JOIN place p ON p.sensor = o.sensor
WHERE h.t >= h.begins AND o.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#AirTemperatureObservation>' AND p.people > 150000
GROUP BY h.t, p.place
