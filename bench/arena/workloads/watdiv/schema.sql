-- Static data by predicate, an offer with its retailer. Streams: a table per kind of event, and one with its newest rows.
CREATE TABLE friend AS SELECT s AS account, o AS friend FROM triples WHERE p = '<http://db.uwaterloo.ca/~galuc/wsdbm/friendOf>';
CREATE TABLE city AS SELECT s AS account, o AS city FROM triples WHERE p = '<http://db.uwaterloo.ca/~galuc/wsdbm/livesIn>';
CREATE TABLE product AS
SELECT g.s AS product, g.o AS genre, c.o AS caption
FROM triples g
JOIN triples c ON c.s = g.s AND c.p = '<http://schema.org/caption>'
WHERE g.p = '<http://db.uwaterloo.ca/~galuc/wsdbm/hasGenre>';
CREATE TABLE offer AS
SELECT i.s AS offer, i.o AS product, r.s AS retailer
FROM triples i
JOIN triples r ON r.o = i.s AND r.p = '<http://purl.org/goodrelations/offers>'
WHERE i.p = '<http://purl.org/goodrelations/includes>';
CREATE TABLE likes(account VARCHAR, product VARCHAR, t BIGINT);
CREATE TABLE now_likes(account VARCHAR, product VARCHAR, t BIGINT);
CREATE TABLE purchase(id VARCHAR, account VARCHAR, product VARCHAR, t BIGINT);
CREATE TABLE now_purchase(id VARCHAR, account VARCHAR, product VARCHAR, t BIGINT);
CREATE TABLE review(id VARCHAR, product VARCHAR, reviewer VARCHAR, rating BIGINT, t BIGINT);
CREATE TABLE now_review(id VARCHAR, product VARCHAR, reviewer VARCHAR, rating BIGINT, t BIGINT)
