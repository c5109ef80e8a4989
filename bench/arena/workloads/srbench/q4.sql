SELECT d.t AS time, d.id AS obs, d.sensor, d.value AS speed, count(*) AS count
FROM now_observation d
JOIN observation o ON o.sensor = d.sensor AND o.t <= d.t AND o.t > d.t - 10000
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND o.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#AirTemperatureObservation>' AND o.value > 32
GROUP BY d.t, d.id, d.sensor, d.value
