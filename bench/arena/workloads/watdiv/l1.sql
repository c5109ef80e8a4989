SELECT d.t AS time, d.account AS "user", d.product, c.city
FROM now_likes d
JOIN city c ON c.account = d.account
JOIN product p ON p.product = d.product
WHERE p.genre = '<http://db.uwaterloo.ca/~galuc/wsdbm/Genre3>'
