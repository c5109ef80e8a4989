-- Elements become rows, one per subject; rows that no window can contain any more are deleted, q4's at most a second after its end.
DELETE FROM now_person;
DELETE FROM now_auction;
DELETE FROM now_bid;
INSERT INTO now_person
SELECT s,
  max(CASE WHEN p = '<http://example.org/nexmark#name>' THEN o END),
  max(CASE WHEN p = '<http://example.org/nexmark#city>' THEN o END),
  max(CASE WHEN p = '<http://example.org/nexmark#state>' THEN o END),
  max(t)
FROM now_elements
WHERE p IN ('<http://example.org/nexmark#name>', '<http://example.org/nexmark#city>', '<http://example.org/nexmark#state>')
GROUP BY s;
INSERT INTO now_auction
SELECT s,
  max(CASE WHEN p = '<http://example.org/nexmark#item>' THEN o END),
  max(CASE WHEN p = '<http://example.org/nexmark#category>' THEN o END),
  max(CASE WHEN p = '<http://example.org/nexmark#seller>' THEN o END),
  max(t)
FROM now_elements
WHERE p IN ('<http://example.org/nexmark#item>', '<http://example.org/nexmark#category>', '<http://example.org/nexmark#seller>')
GROUP BY s;
INSERT INTO now_bid
SELECT s,
  max(CASE WHEN p = '<http://example.org/nexmark#auction>' THEN o END),
  max(CASE WHEN p = '<http://example.org/nexmark#bidder>' THEN o END),
  max(CASE WHEN p = '<http://example.org/nexmark#price>' THEN CAST(substr(o, 2, instr(substr(o, 2), '"') - 1) AS BIGINT) END),
  max(CASE WHEN p = '<http://example.org/nexmark#channel>' THEN o END),
  max(t)
FROM now_elements
WHERE p IN ('<http://example.org/nexmark#auction>', '<http://example.org/nexmark#bidder>', '<http://example.org/nexmark#price>',
            '<http://example.org/nexmark#channel>')
GROUP BY s;
DELETE FROM person WHERE t <= (SELECT min(t) FROM now_elements) - 10000;
DELETE FROM auction WHERE t <= (SELECT min(t) FROM now_elements) - 11000;
DELETE FROM bid WHERE t <= (SELECT min(t) FROM now_elements) - 11000;
INSERT INTO person SELECT * FROM now_person;
INSERT INTO auction SELECT * FROM now_auction;
INSERT INTO bid SELECT * FROM now_bid
