-- Elements become rows, one per graph; rows that no window can contain any more are deleted.
DELETE FROM now_likes;
DELETE FROM now_purchase;
DELETE FROM now_review;
INSERT INTO now_likes SELECT s, o, t FROM now_elements WHERE p = '<http://db.uwaterloo.ca/~galuc/wsdbm/likes>';
INSERT INTO now_purchase
SELECT g,
  max(CASE WHEN p = '<http://db.uwaterloo.ca/~galuc/wsdbm/makesPurchase>' THEN s END),
  max(CASE WHEN p = '<http://db.uwaterloo.ca/~galuc/wsdbm/purchaseFor>' THEN o END),
  max(t)
FROM now_elements
WHERE p IN ('<http://db.uwaterloo.ca/~galuc/wsdbm/makesPurchase>', '<http://db.uwaterloo.ca/~galuc/wsdbm/purchaseFor>')
GROUP BY g;
INSERT INTO now_review
SELECT g,
  max(CASE WHEN p = '<http://purl.org/stuff/rev#hasReview>' THEN s END),
  max(CASE WHEN p = '<http://purl.org/stuff/rev#reviewer>' THEN o END),
  max(CASE WHEN p = '<http://purl.org/stuff/rev#rating>' THEN CAST(substr(o, 2, instr(substr(o, 2), '"') - 1) AS BIGINT) END),
  max(t)
FROM now_elements
WHERE p IN ('<http://purl.org/stuff/rev#hasReview>', '<http://purl.org/stuff/rev#reviewer>', '<http://purl.org/stuff/rev#rating>')
GROUP BY g;
DELETE FROM likes WHERE t <= (SELECT min(t) FROM now_elements) - 10000;
DELETE FROM purchase WHERE t <= (SELECT min(t) FROM now_elements) - 10000;
DELETE FROM review WHERE t <= (SELECT min(t) FROM now_elements) - 10000;
INSERT INTO likes SELECT * FROM now_likes;
INSERT INTO purchase SELECT * FROM now_purchase;
INSERT INTO review SELECT * FROM now_review
