-- An answer is new as often as it is there now and was not there a millisecond ago: NOW holds an element for its millisecond.
WITH found AS (
  SELECT d.t, d.person AS person1, w.person AS person2, d.loc, row_number() OVER (PARTITION BY d.t, d.person, w.person, d.loc) AS number
  FROM located d
  JOIN citing_or_cited c ON c.person1 = d.person
  JOIN located w ON w.person = c.person2 AND w.loc = d.loc AND w.t <= d.t AND w.t > d.t - 30000
  WHERE d.t >= (SELECT min(t) FROM now_located) - 1
), held AS (
  SELECT t, person1, person2, loc, count(*) AS times FROM found GROUP BY t, person1, person2, loc
)
SELECT f.t AS time, n1.name AS author1Name, n2.name AS author2Name, p.name AS locName
FROM found f
JOIN names n1 ON n1.person = f.person1
JOIN names n2 ON n2.person = f.person2
JOIN places p ON p.loc = f.loc
LEFT JOIN held h ON h.t = f.t - 1 AND h.person1 = f.person1 AND h.person2 = f.person2 AND h.loc = f.loc
WHERE f.t >= (SELECT min(t) FROM now_located) AND f.number > coalesce(h.times, 0)
