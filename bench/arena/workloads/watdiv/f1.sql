-- One part per window whose row is the newest; at equal times the earlier part counts the answer.
SELECT r.t AS time, r.id AS review, p.id AS purchase, x.caption, c.city, o.retailer
FROM now_review r
JOIN purchase p ON p.product = r.product AND p.t <= r.t AND p.t > r.t - 10000
JOIN city c ON c.account = r.reviewer
JOIN product x ON x.product = r.product
JOIN offer o ON o.product = r.product
WHERE r.rating > 8 AND x.genre = '<http://db.uwaterloo.ca/~galuc/wsdbm/Genre3>'
UNION ALL
SELECT p.t, r.id, p.id, x.caption, c.city, o.retailer
FROM now_purchase p
JOIN review r ON r.product = p.product AND r.t < p.t AND r.t > p.t - 10000
JOIN city c ON c.account = r.reviewer
JOIN product x ON x.product = r.product
JOIN offer o ON o.product = r.product
WHERE r.rating > 8 AND x.genre = '<http://db.uwaterloo.ca/~galuc/wsdbm/Genre3>'
