-- The static joins of the queries are made once, a row per solution, so that an update meets indexed tables alone.
CREATE TABLE names AS SELECT s AS person, o AS name FROM triples WHERE p = '<http://xmlns.com/foaf/0.1/name>';
CREATE TABLE places AS SELECT s AS loc, o AS name FROM triples WHERE p = '<http://deri.org/ns/loc#name>';
CREATE TABLE creators AS SELECT s, o FROM triples WHERE p = '<http://purl.org/dc/elements/1.1/creator>';
CREATE TABLE citations AS SELECT s AS citing, o AS cited FROM triples WHERE p = '<http://purl.org/dc/terms/references>';
CREATE TABLE coauthors AS
SELECT c1.s AS person1, c2.s AS person2
FROM creators c1
JOIN creators c2 ON c2.o = c1.o
WHERE c1.s IN (SELECT person FROM names) AND c2.s IN (SELECT person FROM names);
CREATE TABLE citing AS
SELECT c1.o AS person1, c2.o AS person2
FROM citations r
JOIN creators c1 ON c1.s = r.citing
JOIN creators c2 ON c2.s = r.cited;
CREATE TABLE citing_or_cited AS SELECT person1, person2 FROM citing UNION ALL SELECT person2, person1 FROM citing;
CREATE TABLE times_cited AS SELECT person1, person2, count(*) AS numPub FROM citing GROUP BY person1, person2;
CREATE TABLE located(person VARCHAR, loc VARCHAR, t BIGINT);
CREATE TABLE now_located(person VARCHAR, loc VARCHAR, t BIGINT)
