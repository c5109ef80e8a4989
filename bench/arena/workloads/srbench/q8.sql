SELECT d.t AS time, d.id AS obs, d.sensor, min(o.value) AS least, max(o.value) AS greatest
FROM now_observation d
JOIN observation o ON o.sensor = d.sensor AND o.kind = d.kind AND o.t <= d.t AND o.t > d.t - 10000
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#AirTemperatureObservation>'
GROUP BY d.t, d.id, d.sensor
