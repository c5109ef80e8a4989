-- One part per window whose row is the newest; at equal times the earlier part counts the answer.
SELECT l.t AS time, l.account AS "user", p.account AS friend, p.id AS purchase, l.product
FROM now_likes l
JOIN purchase p ON p.product = l.product AND p.t <= l.t AND p.t > l.t - 10000
JOIN friend f ON f.account = l.account AND f.friend = p.account
UNION ALL
SELECT p.t, l.account, p.account, p.id, l.product
FROM now_purchase p
JOIN likes l ON l.product = p.product AND l.t < p.t AND l.t > p.t - 10000
JOIN friend f ON f.account = l.account AND f.friend = p.account
