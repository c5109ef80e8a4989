-- Q3: who cites whom, or is cited by whom, was joined beforehand and counted, in both directions.
SELECT /*+ BROADCAST(d) */ d.t AS time, n1.name AS author1Name, n2.name AS author2Name, p.name AS locName
FROM now d
JOIN tuned_cites c ON c.person1 = d.person
JOIN recent w ON w.person = c.person2 AND w.loc = d.loc AND w.t <= d.t AND w.t > d.t - 30000
JOIN tuned_places p ON p.loc = d.loc
JOIN tuned_names n1 ON n1.person = d.person
JOIN tuned_names n2 ON n2.person = w.person
LATERAL VIEW explode(sequence(1, c.n)) AS occurrence
