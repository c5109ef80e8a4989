-- One part per window whose row is the newest of the four; at equal times the earlier part counts the answer.
SELECT b.t AS time, b.id AS bid, a.item, s.name AS sellerName, r.name AS bidderName, b.price
FROM now_bid b
JOIN auction a ON a.id = b.auction AND a.t <= b.t AND a.t > b.t - 10000
JOIN person s ON s.id = a.seller AND s.t <= b.t AND s.t > b.t - 10000
JOIN person r ON r.id = b.bidder AND r.t <= b.t AND r.t > b.t - 10000
UNION ALL
SELECT a.t, b.id, a.item, s.name, r.name, b.price
FROM now_auction a
JOIN bid b ON b.auction = a.id AND b.t < a.t AND b.t > a.t - 10000
JOIN person s ON s.id = a.seller AND s.t <= a.t AND s.t > a.t - 10000
JOIN person r ON r.id = b.bidder AND r.t <= a.t AND r.t > a.t - 10000
UNION ALL
SELECT s.t, b.id, a.item, s.name, r.name, b.price
FROM now_person s
JOIN auction a ON a.seller = s.id AND a.t < s.t AND a.t > s.t - 10000
JOIN bid b ON b.auction = a.id AND b.t < s.t AND b.t > s.t - 10000
JOIN person r ON r.id = b.bidder AND r.t <= s.t AND r.t > s.t - 10000
UNION ALL
SELECT r.t, b.id, a.item, s.name, r.name, b.price
FROM now_person r
JOIN bid b ON b.bidder = r.id AND b.t < r.t AND b.t > r.t - 10000
JOIN auction a ON a.id = b.auction AND a.t < r.t AND a.t > r.t - 10000
JOIN person s ON s.id = a.seller AND s.t < r.t AND s.t > r.t - 10000
