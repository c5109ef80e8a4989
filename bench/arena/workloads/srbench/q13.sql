SELECT d.t AS time, d.id AS obs, p.place, d.value
FROM now_observation d
JOIN place p ON p.sensor = d.sensor
WHERE d.kind = '<http://knoesis.wright.edu/ssw/ont/weather.owl#WindSpeedObservation>' AND d.value >= 25 AND d.value < 55 AND p.code = '<http://www.geonames.org/ontology#H.BCH>' AND p.state_id = '<http://knoesis.wright.edu/ssw/state/1>'
