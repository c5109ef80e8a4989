SELECT GREATEST(b.t, a.t, s.t, r.t) AS `time`, b.id AS bid, a.item, s.name AS sellerName, r.name AS bidderName, b.price
FROM bid b
JOIN auction a ON a.id = b.auction AND ABS(b.t - a.t) < 10000
JOIN person s ON s.id = a.seller AND ABS(s.t - a.t) < 10000 AND ABS(s.t - b.t) < 10000
JOIN person r ON r.id = b.bidder AND ABS(r.t - a.t) < 10000 AND ABS(r.t - b.t) < 10000 AND ABS(r.t - s.t) < 10000
