-- A window ends where a multiple of 10 s lies between the time before the micro-batch and its last time. Equal counts are in the order of the IRIs.
-- Rows that the window before gave are not new.
WITH last AS (
  SELECT max(t) - max(t) % 10000 AS t, (SELECT coalesce(max(t), -1) FROM post WHERE t < (SELECT min(t) FROM now_elements)) AS before
  FROM now_elements
), ends AS (SELECT t FROM last WHERE t > before UNION ALL SELECT t - 10000 FROM last WHERE t > before), ranked AS (
  SELECT e.t, p.tag, count(*) AS count, row_number() OVER (PARTITION BY e.t ORDER BY count(*) DESC, substr(p.tag, 1, length(p.tag) - 1)) AS place
  FROM ends e
  JOIN post p ON p.t <= e.t AND p.t > e.t - 60000
  GROUP BY e.t, p.tag
)
SELECT r.t AS time, r.tag, r.count
FROM ranked r
JOIN last l ON l.t = r.t
WHERE r.place <= 10 AND NOT EXISTS (SELECT 1 FROM ranked b WHERE b.t < r.t AND b.place <= 10 AND b.tag = r.tag AND b.count = r.count)
