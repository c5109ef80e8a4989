SELECT d.t AS time, d.id AS review, d.reviewer, d.rating, p.genre, p.caption, o.offer
FROM now_review d
JOIN product p ON p.product = d.product
JOIN offer o ON o.product = d.product
