-- The last of a like, a place and a photo completes an answer; of equal times the like comes last, then the place.
SELECT l.t AS time, u.account AS "user", g.tagged AS friend, p.id AS photo, l.account AS liker, u.id AS place
FROM now_likes l
JOIN photo p ON p.id = l.item AND p.t <= l.t AND p.t > l.t - 60000
JOIN photo_tag g ON g.photo = p.id
JOIN knows k ON k.friend = g.tagged
JOIN place u ON u.account = k.account AND u.t <= l.t AND u.t > l.t - 5000
WHERE abs(u.lat - p.lat) < 50 AND abs(u.long - p.long) < 50
UNION ALL
SELECT u.t, u.account, g.tagged, p.id, l.account, u.id
FROM now_place u
JOIN knows k ON k.account = u.account
JOIN photo_tag g ON g.tagged = k.friend AND g.t <= u.t AND g.t > u.t - 60000
JOIN photo p ON p.id = g.photo
JOIN likes l ON l.item = p.id AND l.t < u.t AND l.t > u.t - 1000
WHERE abs(u.lat - p.lat) < 50 AND abs(u.long - p.long) < 50
UNION ALL
SELECT p.t, u.account, g.tagged, p.id, l.account, u.id
FROM now_photo p
JOIN likes l ON l.item = p.id AND l.t < p.t AND l.t > p.t - 1000
JOIN photo_tag g ON g.photo = p.id
JOIN knows k ON k.friend = g.tagged
JOIN place u ON u.account = k.account AND u.t < p.t AND u.t > p.t - 5000
WHERE abs(u.lat - p.lat) < 50 AND abs(u.long - p.long) < 50
