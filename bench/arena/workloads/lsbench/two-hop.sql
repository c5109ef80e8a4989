SELECT l.t AS time, l.account AS "user", k.friend AS friend, m.friend AS other, p.id AS post
FROM now_likes l
JOIN post p ON p.id = l.item AND p.t <= l.t AND p.t > l.t - 10000
JOIN knows k ON k.account = l.account
JOIN knows m ON m.account = k.friend AND m.friend <> l.account
JOIN subscriber s ON s.account = m.friend AND s.channel = p.channel
WHERE p.tag = '<http://www.ins.cwi.nl/sib/tag/3>'
UNION ALL
SELECT p.t, l.account, k.friend, m.friend, p.id
FROM now_post p
JOIN likes l ON l.item = p.id AND l.t < p.t AND l.t > p.t - 100
JOIN knows k ON k.account = l.account
JOIN knows m ON m.account = k.friend AND m.friend <> l.account
JOIN subscriber s ON s.account = m.friend AND s.channel = p.channel
WHERE p.tag = '<http://www.ins.cwi.nl/sib/tag/3>'
