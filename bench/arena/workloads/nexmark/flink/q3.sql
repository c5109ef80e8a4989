SELECT GREATEST(a.t, p.t) AS `time`, p.name, p.city, p.state, a.id AS auction
FROM auction a
JOIN person p ON p.id = a.seller AND ABS(p.t - a.t) < 10000
WHERE a.category = '<http://example.org/nexmark/category/10>' AND p.state IN ('"OR"', '"ID"', '"CA"')
