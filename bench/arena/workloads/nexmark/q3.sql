-- A new auction meets the persons before it, a new person the auctions before it; at equal times the first part counts the pair.
SELECT a.t AS time, p.name, p.city, p.state, a.id AS auction
FROM now_auction a
JOIN person p ON p.id = a.seller AND p.t <= a.t AND p.t > a.t - 10000
WHERE a.category = '<http://example.org/nexmark/category/10>' AND p.state IN ('"OR"', '"ID"', '"CA"')
UNION ALL
SELECT p.t, p.name, p.city, p.state, a.id
FROM now_person p
JOIN auction a ON a.seller = p.id AND a.t < p.t AND a.t > p.t - 10000
WHERE a.category = '<http://example.org/nexmark/category/10>' AND p.state IN ('"OR"', '"ID"', '"CA"')
