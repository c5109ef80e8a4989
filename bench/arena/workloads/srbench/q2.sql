SELECT d.t AS time, d.id AS obs, d.sensor, d.kind, d.value, d.unit
FROM now_observation d
JOIN precipitation p ON p.kind = d.kind
