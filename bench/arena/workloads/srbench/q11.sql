SELECT d.t AS time, d.id AS obs, d.sensor, d.value
FROM now_observation d
JOIN neighbor n ON n.sensor = d.sensor
JOIN observation o ON o.sensor = n.other AND o.kind = d.kind AND o.t <= d.t AND o.t > d.t - 10000
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#AirTemperatureObservation>'
GROUP BY d.t, d.id, d.sensor, d.value
HAVING d.value > 30 + avg(o.value)
