SELECT GREATEST(a.t, b.t) AS `time`, b.id AS bid, b.price, a.id AS auction, a.item, a.seller
FROM bid b
JOIN auction a ON a.id = b.auction AND ABS(b.t - a.t) < 10000
WHERE a.category = '<http://example.org/nexmark/category/10>'
