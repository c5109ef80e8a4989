-- A window ends where a multiple of 10 s lies between the time before the micro-batch and its last time.
SELECT f.time, f.category, CAST(floor(1.0 * sum(f.final) / count(*) + 0.5) AS BIGINT) AS average
FROM (
  SELECT w.t AS time, a.id, a.category, max(b.price) AS final
  FROM (
    SELECT max(n.t) - max(n.t) % 10000 AS t, (SELECT coalesce(max(t), -1) FROM bid WHERE t < (SELECT min(t) FROM now_bid)) AS before
    FROM now_bid n
  ) w
  JOIN auction a ON a.t <= w.t AND a.t > w.t - 10000
  JOIN bid b ON b.auction = a.id AND b.t <= w.t AND b.t > w.t - 10000
  WHERE w.t > w.before
  GROUP BY w.t, a.id, a.category
) f
GROUP BY f.time, f.category
