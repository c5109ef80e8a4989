-- Elements become rows; rows that no query can need any more are deleted.
DELETE FROM now_post;
DELETE FROM now_photo_tag;
DELETE FROM now_likes;
DELETE FROM now_photo;
DELETE FROM now_place;
INSERT INTO now_post
SELECT
  max(CASE WHEN p = '<http://www.ins.cwi.nl/sib/vocabulary/hashtag>' THEN s END),
  max(CASE WHEN p = '<http://rdfs.org/sioc/ns#creator_of>' THEN s END),
  max(CASE WHEN p = '<http://rdfs.org/sioc/ns#container_of>' THEN s END),
  max(CASE WHEN p = '<http://www.ins.cwi.nl/sib/vocabulary/hashtag>' THEN o END),
  max(t)
FROM now_elements
WHERE g LIKE '<http://www.ins.cwi.nl/sib/post/%'
GROUP BY g;
INSERT INTO now_photo_tag SELECT s, o, t FROM now_elements WHERE p = '<http://www.ins.cwi.nl/sib/vocabulary/usertag>';
INSERT INTO now_photo
SELECT
  max(CASE WHEN p = '<http://www.w3.org/2003/01/geo/wgs84_pos#lat>' THEN s END),
  max(CASE WHEN p = '<http://www.w3.org/2003/01/geo/wgs84_pos#lat>' THEN CAST(substr(o, 2, instr(substr(o, 2), '"') - 1) AS BIGINT) END),
  max(CASE WHEN p = '<http://www.w3.org/2003/01/geo/wgs84_pos#long>' THEN CAST(substr(o, 2, instr(substr(o, 2), '"') - 1) AS BIGINT) END),
  max(t)
FROM now_elements
WHERE g LIKE '<http://www.ins.cwi.nl/sib/photo/%'
GROUP BY g;
INSERT INTO now_place
SELECT
  max(CASE WHEN p = '<http://www.w3.org/2003/01/geo/wgs84_pos#lat>' THEN s END),
  max(CASE WHEN p = '<http://www.ins.cwi.nl/sib/vocabulary/tracked_at>' THEN s END),
  max(CASE WHEN p = '<http://www.w3.org/2003/01/geo/wgs84_pos#lat>' THEN CAST(substr(o, 2, instr(substr(o, 2), '"') - 1) AS BIGINT) END),
  max(CASE WHEN p = '<http://www.w3.org/2003/01/geo/wgs84_pos#long>' THEN CAST(substr(o, 2, instr(substr(o, 2), '"') - 1) AS BIGINT) END),
  max(t)
FROM now_elements
WHERE g LIKE '<http://www.ins.cwi.nl/sib/place/%'
GROUP BY g;
INSERT INTO now_likes SELECT s, o, t FROM now_elements WHERE p = '<http://www.ins.cwi.nl/sib/vocabulary/like>';
DELETE FROM post WHERE t <= (SELECT min(t) FROM now_elements) - 80000;
DELETE FROM photo_tag WHERE t <= (SELECT min(t) FROM now_elements) - 60000;
DELETE FROM photo WHERE t <= (SELECT min(t) FROM now_elements) - 60000;
DELETE FROM place WHERE t <= (SELECT min(t) FROM now_elements) - 5000;
DELETE FROM likes WHERE t <= (SELECT min(t) FROM now_elements) - 80000;
INSERT INTO post SELECT * FROM now_post;
INSERT INTO photo_tag SELECT * FROM now_photo_tag;
INSERT INTO photo SELECT * FROM now_photo;
INSERT INTO place SELECT * FROM now_place;
INSERT INTO likes SELECT * FROM now_likes
