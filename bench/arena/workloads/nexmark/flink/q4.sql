SELECT MAX(ends) AS `time`, category, CAST(FLOOR(1.0E0 * SUM(final) / COUNT(*) + 0.5E0) AS BIGINT) AS average
FROM (
  SELECT a.window_start, a.window_end, a.id, a.category, MAX(b.price) AS final, MAX((b.t + 9999) / 10000 * 10000) AS ends
  FROM (SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '0.001' SECOND))) a
  JOIN (SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '0.001' SECOND))) b
    ON b.auction = a.id AND b.window_start = a.window_start AND b.window_end = a.window_end
  GROUP BY a.window_start, a.window_end, a.id, a.category
)
GROUP BY window_start, window_end, category
