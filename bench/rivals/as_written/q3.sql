-- Q3: two people of whom one cites the other are in the same place: one now, the other within the window.
SELECT d.t AS time, n1.name AS author1Name, n2.name AS author2Name, p.name AS locName
FROM now d
JOIN recent w ON w.loc = d.loc AND w.t <= d.t AND w.t > d.t - 30000
JOIN places p ON p.loc = d.loc
JOIN creators c1 ON c1.o = d.person
JOIN creators c2 ON c2.o = w.person
JOIN (
  SELECT citing AS p1, cited AS p2 FROM citations
  UNION ALL
  SELECT cited AS p1, citing AS p2 FROM citations
) r ON r.p1 = c1.s AND r.p2 = c2.s
JOIN names n1 ON n1.person = d.person
JOIN names n2 ON n2.person = w.person
