-- Q4: how often a person in the window is cited, at most, by one of those who are in the same place now.
-- NOW holds an element for its millisecond: an answer is no news where the millisecond before had it.
WITH found AS (
  SELECT d.t AS time, substring(w.person, 2, length(w.person) - 2) AS person2, max(c.numPub) AS max
  FROM now d
  JOIN recent w ON w.loc = d.loc AND w.t <= d.t AND w.t > d.t - 30000
  JOIN (
    SELECT c1.o AS person1, c2.o AS person2, count(*) AS numPub
    FROM creators c1
    JOIN citations r ON r.citing = c1.s
    JOIN creators c2 ON c2.s = r.cited
    GROUP BY c1.o, c2.o
  ) c ON c.person1 = d.person AND c.person2 = w.person
  GROUP BY d.t, w.person
), held AS (
  SELECT time, person2, max, lag(time) OVER (PARTITION BY person2, max ORDER BY time) AS last FROM found
)
SELECT time, person2, max FROM held WHERE last IS NULL OR last < time - 1
