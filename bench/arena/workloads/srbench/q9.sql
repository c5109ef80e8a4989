SELECT w.t AS time, w.id AS a, o.id AS b, w.sensor, f.force, o.value AS degrees
FROM now_observation w
JOIN observation o ON o.sensor = w.sensor AND o.t <= w.t AND o.t > w.t - 10000
JOIN force f ON w.value >= f.low AND w.value < f.high
WHERE w.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND o.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindDirectionObservation>'
UNION ALL
SELECT o.t, w.id, o.id, w.sensor, f.force, o.value
FROM now_observation o
JOIN observation w ON w.sensor = o.sensor AND w.t < o.t AND w.t > o.t - 10000
JOIN force f ON w.value >= f.low AND w.value < f.high
WHERE w.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND o.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindDirectionObservation>'
