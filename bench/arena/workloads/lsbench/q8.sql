SELECT d.t AS time, p.tagged AS "user", d.account AS other, d.item AS photo
FROM now_likes d
JOIN photo_tag p ON p.photo = d.item AND p.t <= d.t AND p.t > d.t - 60000
WHERE p.tagged <> d.account AND NOT EXISTS (SELECT 1 FROM knows k WHERE k.account = p.tagged AND k.friend = d.account)
UNION ALL
SELECT d.t, d.tagged, l.account, d.photo
FROM now_photo_tag d
JOIN likes l ON l.item = d.photo AND l.t < d.t AND l.t > d.t - 100
WHERE d.tagged <> l.account AND NOT EXISTS (SELECT 1 FROM knows k WHERE k.account = d.tagged AND k.friend = l.account)
