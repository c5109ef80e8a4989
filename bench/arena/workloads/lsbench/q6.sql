SELECT d.t AS time, k.account AS "user", d.account AS friend, d.item AS post, p.channel
FROM now_likes d
JOIN post p ON p.id = d.item AND p.t <= d.t AND p.t > d.t - 60000
JOIN knows k ON k.friend = d.account
JOIN subscriber s ON s.account = k.account AND s.channel = p.channel
UNION ALL
SELECT d.t, k.account, l.account, d.id, d.channel
FROM now_post d
JOIN likes l ON l.item = d.id AND l.t < d.t AND l.t > d.t - 100
JOIN knows k ON k.friend = l.account
JOIN subscriber s ON s.account = k.account AND s.channel = d.channel
