-- One part per window whose row is the newest; at equal times the earlier part counts the answer.
SELECT l.t AS time, l.account AS "user", p.account AS friend, p.id AS purchase, r.id AS review, r.rating
FROM now_likes l
JOIN purchase p ON p.product = l.product AND p.t <= l.t AND p.t > l.t - 10000
JOIN review r ON r.product = l.product AND r.t <= l.t AND r.t > l.t - 10000
JOIN friend f ON f.account = l.account AND f.friend = p.account
UNION ALL
SELECT p.t, l.account, p.account, p.id, r.id, r.rating
FROM now_purchase p
JOIN likes l ON l.product = p.product AND l.t < p.t AND l.t > p.t - 10000
JOIN review r ON r.product = p.product AND r.t <= p.t AND r.t > p.t - 10000
JOIN friend f ON f.account = l.account AND f.friend = p.account
UNION ALL
SELECT r.t, l.account, p.account, p.id, r.id, r.rating
FROM now_review r
JOIN likes l ON l.product = r.product AND l.t < r.t AND l.t > r.t - 10000
JOIN purchase p ON p.product = r.product AND p.t < r.t AND p.t > r.t - 10000
JOIN friend f ON f.account = l.account AND f.friend = p.account
