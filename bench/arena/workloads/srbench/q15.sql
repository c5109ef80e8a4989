SELECT d.t AS time, d.id AS obs, p.place, h.hurricane
FROM now_observation d
JOIN place p ON p.sensor = d.sensor
JOIN hurricane h ON d.value > h.winds
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND d.value > 74
