-- A location is new unless an equal one leaves the window at the same time.
SELECT d.t AS time, n.name, p.name AS locName
FROM (SELECT person, loc, t, row_number() OVER (PARTITION BY person, loc, t) AS number FROM now_located) d
JOIN names n ON n.person = d.person
JOIN places p ON p.loc = d.loc
WHERE d.number > (SELECT count(*) FROM located o WHERE o.person = d.person AND o.loc = d.loc AND o.t = d.t - 30000)
