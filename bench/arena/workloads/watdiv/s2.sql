-- One part per window whose row is the newest; at equal times the earlier part counts the answer.
SELECT l.t AS time, l.product, l.account AS "user", p.id AS purchase, r.id AS review
FROM now_likes l
JOIN purchase p ON p.product = l.product AND p.t <= l.t AND p.t > l.t - 10000
JOIN review r ON r.product = l.product AND r.t <= l.t AND r.t > l.t - 10000
JOIN product x ON x.product = l.product
WHERE r.rating = 10 AND x.genre = '<http://db.uwaterloo.ca/~galuc/wsdbm/Genre3>'
UNION ALL
SELECT p.t, p.product, l.account, p.id, r.id
FROM now_purchase p
JOIN likes l ON l.product = p.product AND l.t < p.t AND l.t > p.t - 10000
JOIN review r ON r.product = p.product AND r.t <= p.t AND r.t > p.t - 10000
JOIN product x ON x.product = p.product
WHERE r.rating = 10 AND x.genre = '<http://db.uwaterloo.ca/~galuc/wsdbm/Genre3>'
UNION ALL
SELECT r.t, r.product, l.account, p.id, r.id
FROM now_review r
JOIN likes l ON l.product = r.product AND l.t < r.t AND l.t > r.t - 10000
JOIN purchase p ON p.product = r.product AND p.t < r.t AND p.t > r.t - 10000
JOIN product x ON x.product = r.product
WHERE r.rating = 10 AND x.genre = '<http://db.uwaterloo.ca/~galuc/wsdbm/Genre3>'
