-- Q4: the counts of the sub-query do not depend on the stream: they were made beforehand.
-- NOW holds an element for its millisecond: an answer is no news where the millisecond before had it.
WITH found AS (
  SELECT /*+ BROADCAST(d) */ d.t AS time, substring(w.person, 2, length(w.person) - 2) AS person2, max(c.numPub) AS max
  FROM now d
  JOIN tuned_cited c ON c.person1 = d.person
  JOIN recent w ON w.person = c.person2 AND w.loc = d.loc AND w.t <= d.t AND w.t > d.t - 30000
  GROUP BY d.t, w.person
), held AS (
  SELECT time, person2, max, lag(time) OVER (PARTITION BY person2, max ORDER BY time) AS last FROM found
)
SELECT time, person2, max FROM held WHERE last IS NULL OR last < time - 1
