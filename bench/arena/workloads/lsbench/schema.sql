-- Static data by predicate. Streams: a table per kind of thing, and one with its newest rows.
CREATE TABLE account AS SELECT s AS account, o AS person FROM triples WHERE p = '<http://rdfs.org/sioc/ns#account_of>';
CREATE TABLE knows AS SELECT s AS account, o AS friend FROM triples WHERE p = '<http://xmlns.com/foaf/0.1/knows>';
CREATE TABLE subscriber AS SELECT s AS account, o AS channel FROM triples WHERE p = '<http://rdfs.org/sioc/ns#subscriber_of>';
CREATE TABLE post(id VARCHAR, creator VARCHAR, channel VARCHAR, tag VARCHAR, t BIGINT);
CREATE TABLE photo_tag(photo VARCHAR, tagged VARCHAR, t BIGINT);
CREATE TABLE photo(id VARCHAR, lat BIGINT, long BIGINT, t BIGINT);
CREATE TABLE place(id VARCHAR, account VARCHAR, lat BIGINT, long BIGINT, t BIGINT);
CREATE TABLE likes(account VARCHAR, item VARCHAR, t BIGINT);
CREATE TABLE now_post(id VARCHAR, creator VARCHAR, channel VARCHAR, tag VARCHAR, t BIGINT);
CREATE TABLE now_photo_tag(photo VARCHAR, tagged VARCHAR, t BIGINT);
CREATE TABLE now_photo(id VARCHAR, lat BIGINT, long BIGINT, t BIGINT);
CREATE TABLE now_place(id VARCHAR, account VARCHAR, lat BIGINT, long BIGINT, t BIGINT);
CREATE TABLE now_likes(account VARCHAR, item VARCHAR, t BIGINT)
