SELECT d.t AS time, d.account AS "user", d.id AS purchase, o.retailer
FROM now_purchase d
JOIN offer o ON o.product = d.product
