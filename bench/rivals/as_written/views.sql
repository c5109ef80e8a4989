-- The relations of the report's queries over tables of its triples, each by its predicate; people and papers in both directions.
CREATE TEMPORARY VIEW names AS SELECT s AS person, trim(BOTH '"' FROM o) AS name FROM triples WHERE p = '<http://xmlns.com/foaf/0.1/name>';
CREATE TEMPORARY VIEW places AS SELECT s AS loc, trim(BOTH '"' FROM o) AS name FROM triples WHERE p = '<http://deri.org/ns/loc#name>';
CREATE TEMPORARY VIEW creators AS SELECT s, o FROM triples WHERE p = '<http://purl.org/dc/elements/1.1/creator>';
CREATE TEMPORARY VIEW citations AS SELECT s AS citing, o AS cited FROM triples WHERE p = '<http://purl.org/dc/terms/references>';
-- Who is where: the elements of the micro-batch, and those that the window may still hold.
CREATE TEMPORARY VIEW now AS SELECT s AS person, o AS loc, t FROM now_elements WHERE p = '<http://deri.org/ns/loc#at>';
CREATE TEMPORARY VIEW recent AS SELECT s AS person, o AS loc, t FROM recent_elements WHERE p = '<http://deri.org/ns/loc#at>';
