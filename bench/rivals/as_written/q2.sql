-- Q2: two people who wrote a paper together are in the same place: one now, the other within the window.
SELECT d.t AS time, n1.name AS author1Name, n2.name AS author2Name, p.name AS locName
FROM now d
JOIN recent w ON w.loc = d.loc AND w.t <= d.t AND w.t > d.t - 30000
JOIN places p ON p.loc = d.loc
JOIN creators c1 ON c1.s = d.person
JOIN creators c2 ON c2.s = w.person AND c2.o = c1.o
JOIN names n1 ON n1.person = d.person
JOIN names n2 ON n2.person = w.person
