SELECT b.t AS time, b.id AS bid, b.auction, max(o.price) AS highest
FROM now_bid b
JOIN auction a ON a.id = b.auction AND a.t <= b.t AND a.t > b.t - 10000
JOIN bid o ON o.auction = b.auction AND o.t <= b.t AND o.t > b.t - 10000
GROUP BY b.t, b.id, b.auction
