SELECT b.t AS `time`, b.id AS bid, b.auction, b.highest
FROM (
  SELECT id, auction, t,
    MAX(price) OVER (PARTITION BY auction ORDER BY ts RANGE BETWEEN INTERVAL '9.999' SECOND PRECEDING AND CURRENT ROW) AS highest
  FROM bid
) b
JOIN auction a ON a.id = b.auction AND a.t <= b.t AND a.t > b.t - 10000
