-- An answer is new where the millisecond before had no equal one.
WITH found AS (
  SELECT d.t, w.person AS person2, max(c.numPub) AS highest
  FROM located d
  JOIN times_cited c ON c.person1 = d.person
  JOIN located w ON w.person = c.person2 AND w.loc = d.loc AND w.t <= d.t AND w.t > d.t - 30000
  WHERE d.t >= (SELECT min(t) FROM now_located) - 1
  GROUP BY d.t, w.person
)
SELECT f.t AS time, f.person2, f.highest AS max
FROM found f
LEFT JOIN found h ON h.t = f.t - 1 AND h.person2 = f.person2 AND h.highest = f.highest
WHERE f.t >= (SELECT min(t) FROM now_located) AND h.t IS NULL
