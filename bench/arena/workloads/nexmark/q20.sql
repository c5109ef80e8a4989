SELECT b.t AS time, b.id AS bid, b.price, a.id AS auction, a.item, a.seller
FROM now_bid b
JOIN auction a ON a.id = b.auction AND a.t <= b.t AND a.t > b.t - 10000
WHERE a.category = '<http://example.org/nexmark/category/10>'
UNION ALL
SELECT a.t, b.id, b.price, a.id, a.item, a.seller
FROM now_auction a
JOIN bid b ON b.auction = a.id AND b.t < a.t AND b.t > a.t - 10000
WHERE a.category = '<http://example.org/nexmark/category/10>'
