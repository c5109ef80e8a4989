-- Friends know each other, so each part begins at the newest post; at equal times the earlier part counts the answer.
SELECT a.t AS time, a.creator AS a, b.creator AS b, c.creator AS c, a.id AS post1, b.id AS post2, c.id AS post3
FROM now_post a
JOIN knows ka ON ka.account = a.creator
JOIN post b ON b.creator = ka.friend AND b.t <= a.t AND b.t > a.t - 3000
JOIN knows kb ON kb.account = b.creator
JOIN post c ON c.creator = kb.friend AND c.t <= a.t AND c.t > a.t - 3000
JOIN knows kc ON kc.account = c.creator AND kc.friend = a.creator
UNION ALL
SELECT b.t, a.creator, b.creator, c.creator, a.id, b.id, c.id
FROM now_post b
JOIN knows kb ON kb.account = b.creator
JOIN post a ON a.creator = kb.friend AND a.t < b.t AND a.t > b.t - 3000
JOIN knows ka ON ka.account = a.creator
JOIN post c ON c.creator = ka.friend AND c.t <= b.t AND c.t > b.t - 3000
JOIN knows kc ON kc.account = c.creator AND kc.friend = b.creator
UNION ALL
SELECT c.t, a.creator, b.creator, c.creator, a.id, b.id, c.id
FROM now_post c
JOIN knows kc ON kc.account = c.creator
JOIN post a ON a.creator = kc.friend AND a.t < c.t AND a.t > c.t - 3000
JOIN knows ka ON ka.account = a.creator
JOIN post b ON b.creator = ka.friend AND b.t < c.t AND b.t > c.t - 3000
JOIN knows kb ON kb.account = b.creator AND kb.friend = c.creator
