SELECT GREATEST(a.t, p.t) AS `time`, p.id AS seller, p.name, a.id AS auction
FROM person p
JOIN auction a ON a.seller = p.id AND ABS(p.t - a.t) < 10000
