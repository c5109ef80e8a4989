-- Elements become rows; rows that no window can contain any more are deleted.
DELETE FROM now_post;
DELETE FROM now_photo_tag;
DELETE FROM now_likes;
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
INSERT INTO now_likes SELECT s, o, t FROM now_elements WHERE p = '<http://www.ins.cwi.nl/sib/vocabulary/like>';
DELETE FROM post WHERE t <= (SELECT min(t) FROM now_elements) - 60000;
DELETE FROM photo_tag WHERE t <= (SELECT min(t) FROM now_elements) - 60000;
DELETE FROM likes WHERE t <= (SELECT min(t) FROM now_elements) - 100;
INSERT INTO post SELECT * FROM now_post;
INSERT INTO photo_tag SELECT * FROM now_photo_tag;
INSERT INTO likes SELECT * FROM now_likes
