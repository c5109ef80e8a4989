-- A station is silent from 2 s after an observation on, unless it observes again until then.
SELECT DISTINCT o.t + 2000 AS time, o.sensor
FROM observation o
WHERE o.t + 2000 <= (SELECT max(t) FROM now_observation)
  AND o.t + 2000 > (SELECT coalesce(max(t), -1) FROM observation WHERE t < (SELECT min(t) FROM now_observation))
  AND NOT EXISTS (SELECT 1 FROM observation n WHERE n.sensor = o.sensor AND n.t > o.t AND n.t <= o.t + 2000)
