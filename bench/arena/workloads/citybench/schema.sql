-- Properties by class, with the place of those of car parks. Streams: one table of values, and one with its newest rows.
CREATE TABLE property AS
SELECT s AS id, o AS class FROM triples
WHERE p = '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>' AND o LIKE '<http://www.insight-centre.org/citytraffic#%';
CREATE TABLE place AS
SELECT v.id AS property, latitude.o AS latitude, longitude.o AS longitude
FROM property v
JOIN triples located ON located.s = v.id AND located.p = '<http://purl.oclc.org/NET/ssnx/ssn#isPropertyOf>'
JOIN triples latitude ON latitude.s = located.o AND latitude.p = '<http://www.insight-centre.org/citytraffic#hasStartLatitude>'
JOIN triples longitude ON longitude.s = located.o AND longitude.p = '<http://www.insight-centre.org/citytraffic#hasStartLongitude>'
WHERE v.class = '<http://www.insight-centre.org/citytraffic#ParkingVacancy>';
CREATE TABLE reading(id VARCHAR, property VARCHAR, result VARCHAR, graph VARCHAR, t BIGINT);
CREATE TABLE now_reading(id VARCHAR, property VARCHAR, result VARCHAR, graph VARCHAR, t BIGINT)
