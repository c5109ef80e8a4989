SELECT a.t AS time, p.id AS seller, p.name, a.id AS auction
FROM now_auction a
JOIN person p ON p.id = a.seller AND p.t <= a.t AND p.t > a.t - 10000
UNION ALL
SELECT p.t, p.id, p.name, a.id
FROM now_person p
JOIN auction a ON a.seller = p.id AND a.t < p.t AND a.t > p.t - 10000
