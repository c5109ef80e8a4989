-- Static data: the company and the country of a channel. Streams: one table per kind of event, and one with its newest rows.
CREATE TABLE channel AS
SELECT owner.s AS id, owner.o AS company, label.o AS country
FROM triples owner
JOIN triples country ON country.s = owner.o AND country.p = '<http://example.org/nexmark#country>'
JOIN triples label ON label.s = country.o AND label.p = '<http://example.org/nexmark#label>'
WHERE owner.p = '<http://example.org/nexmark#owner>';
CREATE TABLE person(id VARCHAR, name VARCHAR, city VARCHAR, state VARCHAR, t BIGINT);
CREATE TABLE auction(id VARCHAR, item VARCHAR, category VARCHAR, seller VARCHAR, t BIGINT);
CREATE TABLE bid(id VARCHAR, auction VARCHAR, bidder VARCHAR, price BIGINT, channel VARCHAR, t BIGINT);
CREATE TABLE now_person(id VARCHAR, name VARCHAR, city VARCHAR, state VARCHAR, t BIGINT);
CREATE TABLE now_auction(id VARCHAR, item VARCHAR, category VARCHAR, seller VARCHAR, t BIGINT);
CREATE TABLE now_bid(id VARCHAR, auction VARCHAR, bidder VARCHAR, price BIGINT, channel VARCHAR, t BIGINT)
