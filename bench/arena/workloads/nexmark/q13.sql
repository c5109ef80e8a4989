SELECT b.t AS time, b.id AS bid, b.price, c.company, c.country
FROM now_bid b
JOIN channel c ON c.id = b.channel
