-- Elements become rows; rows that no window can contain any more are deleted.
DELETE FROM now_observation;
INSERT INTO now_observation
SELECT g,
  max(CASE WHEN p = '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>' THEN o END),
  max(CASE WHEN p = '<http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#procedure>' THEN o END),
  max(CASE WHEN p = '<http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#floatValue>' THEN CAST(substr(o, 2, instr(substr(o, 2), '"') - 1) AS BIGINT) END),
  max(CASE WHEN p = '<http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#uom>' THEN o END),
  max(t)
FROM now_elements
GROUP BY g;
DELETE FROM observation WHERE t <= (SELECT min(t) FROM now_elements) - 10000;
INSERT INTO observation SELECT * FROM now_observation
