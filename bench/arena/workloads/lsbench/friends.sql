SELECT l.t AS time, p.creator AS "user", l.account AS friend, p.id AS post
FROM now_likes l
JOIN post p ON p.id = l.item AND p.t <= l.t AND p.t > l.t - 10000
JOIN knows k ON k.account = p.creator AND k.friend = l.account
UNION ALL
SELECT p.t, p.creator, l.account, p.id
FROM now_post p
JOIN likes l ON l.item = p.id AND l.t < p.t AND l.t > p.t - 100
JOIN knows k ON k.account = p.creator AND k.friend = l.account
