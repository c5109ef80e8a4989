-- Q1: an element is new once, when it comes: no window is needed to say what it adds.
SELECT /*+ BROADCAST(d) */ d.t AS time, n.name AS name, p.name AS locName
FROM now d
JOIN tuned_names n ON n.person = d.person
JOIN tuned_places p ON p.loc = d.loc
