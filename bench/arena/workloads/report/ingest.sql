-- A row that expires at the time of a new equal one is still needed: only what was new is an answer.
DELETE FROM now_located;
INSERT INTO now_located SELECT s, o, t FROM now_elements WHERE p = '<http://deri.org/ns/loc#at>';
DELETE FROM located WHERE t < (SELECT min(t) FROM now_elements) - 30001;
INSERT INTO located SELECT * FROM now_located
