-- A window ends where a multiple of 5 s lies between the time before the micro-batch and its last time.
-- Rows that the window before gave are not new.
WITH last AS (
  SELECT max(t) - max(t) % 5000 AS t, (SELECT coalesce(max(t), -1) FROM post WHERE t < (SELECT min(t) FROM now_elements)) AS before
  FROM now_elements
), ends AS (SELECT t FROM last WHERE t > before UNION ALL SELECT t - 5000 FROM last WHERE t > before), counts AS (
  SELECT e.t, count(*) AS count
  FROM ends e
  JOIN post p ON p.t <= e.t AND p.t > e.t - 15000
  WHERE p.tag = '<http://www.ins.cwi.nl/sib/tag/3>'
  GROUP BY e.t
)
SELECT c.t AS time, c.count
FROM counts c
JOIN last l ON l.t = c.t
WHERE NOT EXISTS (SELECT 1 FROM counts b WHERE b.t < c.t AND b.count = c.count)
