-- A new post meets those before it and of its time, and they meet it.
SELECT d.t AS time, d.id AS post1, o.id AS post2, d.tag
FROM now_post d
JOIN post o ON o.creator = d.creator AND o.tag = d.tag AND o.t <= d.t AND o.t > d.t - 15000
WHERE o.id <> d.id
UNION ALL
SELECT d.t, o.id, d.id, d.tag
FROM now_post d
JOIN post o ON o.creator = d.creator AND o.tag = d.tag AND o.t < d.t AND o.t > d.t - 15000
