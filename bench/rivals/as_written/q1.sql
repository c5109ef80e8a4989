-- Q1: where people are, with their names and those of the places. What is new in a micro-batch are its own elements.
SELECT w.t AS time, n.name AS name, p.name AS locName
FROM recent w
JOIN places p ON p.loc = w.loc
JOIN names n ON n.person = w.person
WHERE w.t >= (SELECT min(t) FROM now)
