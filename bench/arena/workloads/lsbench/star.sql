SELECT l.t AS time, p.id AS post, p.tag AS tag, p.channel AS channel, a.person AS person, b.person AS liker
FROM now_likes l
JOIN post p ON p.id = l.item AND p.t <= l.t AND p.t > l.t - 10000
JOIN account a ON a.account = p.creator
JOIN account b ON b.account = l.account
UNION ALL
SELECT p.t, p.id, p.tag, p.channel, a.person, b.person
FROM now_post p
JOIN likes l ON l.item = p.id AND l.t < p.t AND l.t > p.t - 100
JOIN account a ON a.account = p.creator
JOIN account b ON b.account = l.account
