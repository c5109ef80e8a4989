SELECT b.t AS `time`, b.id AS bid, b.price, c.company, c.country
FROM bid b
JOIN channel c ON c.id = b.channel
