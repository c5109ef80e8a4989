SELECT d.t AS time, d.account AS "user", f.friend, x.caption, o.retailer
FROM now_likes d
JOIN friend f ON f.account = d.account
JOIN city c ON c.account = f.friend
JOIN product x ON x.product = d.product
JOIN offer o ON o.product = d.product
WHERE c.city = '<http://db.uwaterloo.ca/~galuc/wsdbm/City1>' AND x.genre = '<http://db.uwaterloo.ca/~galuc/wsdbm/Genre3>'
