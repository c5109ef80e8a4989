-- One part per window whose row is the newest; at equal times the earlier part counts the answer.
SELECT p.t AS time, p.account AS buyer, r.reviewer, p.product, f.friend
FROM now_purchase p
JOIN review r ON r.product = p.product AND r.t <= p.t AND r.t > p.t - 10000
JOIN city c ON c.account = p.account
JOIN city e ON e.account = r.reviewer AND e.city = c.city
JOIN friend f ON f.account = p.account
JOIN friend g ON g.account = r.reviewer AND g.friend = f.friend
UNION ALL
SELECT r.t, p.account, r.reviewer, p.product, f.friend
FROM now_review r
JOIN purchase p ON p.product = r.product AND p.t < r.t AND p.t > r.t - 10000
JOIN city c ON c.account = p.account
JOIN city e ON e.account = r.reviewer AND e.city = c.city
JOIN friend f ON f.account = p.account
JOIN friend g ON g.account = r.reviewer AND g.friend = f.friend
