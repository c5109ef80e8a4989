-- A window ends where a multiple of 10 s lies between the time before the micro-batch and its last time.
-- Rows that the window before gave are not new.
WITH last AS (
  SELECT max(t) - max(t) % 10000 AS t, (SELECT coalesce(max(t), -1) FROM (SELECT t FROM post UNION ALL SELECT t FROM likes) x WHERE t < (SELECT min(t) FROM now_elements)) AS before
  FROM now_elements
), ends AS (SELECT t FROM last WHERE t > before UNION ALL SELECT t - 10000 FROM last WHERE t > before), liked AS (
  SELECT e.t, p.creator, p.id, count(*) AS users
  FROM ends e
  JOIN post p ON p.t <= e.t AND p.t > e.t - 60000
  JOIN likes l ON l.item = p.id AND l.t <= e.t AND l.t > e.t - 60000
  GROUP BY e.t, p.creator, p.id
), averages AS (
  SELECT t, creator, CAST(floor(1000.0 * sum(users) / count(*) + 0.5) AS BIGINT) AS average
  FROM liked
  GROUP BY t, creator
)
SELECT a.t AS time, a.creator AS "user", a.average
FROM averages a
JOIN last l ON l.t = a.t
LEFT JOIN averages b ON b.creator = a.creator AND b.t < a.t AND b.average = a.average
WHERE b.t IS NULL
