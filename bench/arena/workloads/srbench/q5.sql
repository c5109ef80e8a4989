-- One part per window whose row is the newest of the three; at equal times the earlier part counts the answer.
SELECT w.t AS time, w.id AS a, n.id AS b, v.id AS c, w.sensor, w.value AS speed, n.value AS snow, v.value AS view
FROM now_observation w
JOIN observation n ON n.sensor = w.sensor AND n.t <= w.t AND n.t > w.t - 10000
JOIN observation v ON v.sensor = w.sensor AND v.t <= w.t AND v.t > w.t - 10000
WHERE w.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND w.value > 35
  AND n.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#SnowfallObservation>' AND n.value > 10
  AND v.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#VisibilityObservation>' AND v.value < 5
UNION ALL
SELECT n.t, w.id, n.id, v.id, w.sensor, w.value, n.value, v.value
FROM now_observation n
JOIN observation w ON w.sensor = n.sensor AND w.t < n.t AND w.t > n.t - 10000
JOIN observation v ON v.sensor = n.sensor AND v.t <= n.t AND v.t > n.t - 10000
WHERE w.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND w.value > 35
  AND n.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#SnowfallObservation>' AND n.value > 10
  AND v.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#VisibilityObservation>' AND v.value < 5
UNION ALL
SELECT v.t, w.id, n.id, v.id, w.sensor, w.value, n.value, v.value
FROM now_observation v
JOIN observation w ON w.sensor = v.sensor AND w.t < v.t AND w.t > v.t - 10000
JOIN observation n ON n.sensor = v.sensor AND n.t < v.t AND n.t > v.t - 10000
WHERE w.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND w.value > 35
  AND n.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#SnowfallObservation>' AND n.value > 10
  AND v.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#VisibilityObservation>' AND v.value < 5
