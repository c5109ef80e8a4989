-- One part per window whose row is the newest; at equal times the earlier part counts the answer.
SELECT a.t AS time, a.account AS one, b.account AS other, a.product, c.city
FROM now_likes a
JOIN likes b ON b.product = a.product AND b.t <= a.t AND b.t > a.t - 10000
JOIN friend f ON f.account = a.account AND f.friend = b.account
JOIN city c ON c.account = a.account
JOIN city e ON e.account = b.account AND e.city = c.city
UNION ALL
SELECT b.t, a.account, b.account, a.product, c.city
FROM now_likes b
JOIN likes a ON a.product = b.product AND a.t < b.t AND a.t > b.t - 10000
JOIN friend f ON f.account = a.account AND f.friend = b.account
JOIN city c ON c.account = a.account
JOIN city e ON e.account = b.account AND e.city = c.city
