-- Static data: places near a station with what is there, stations around, kinds of precipitation, and speeds of winds. The stream: observations.
CREATE TABLE precipitation AS
SELECT s AS kind FROM triples
WHERE p = '<http://www.w3.org/2000/01/rdf-schema#subClassOf>' AND o = '<http://knoesis.wright.edu/ssw/ont/weather.owl#PrecipitationObservation>';
CREATE TABLE place AS
SELECT near.s AS sensor, location.o AS id, place.o AS place, parent.o AS state_id, state.o AS state, code.o AS code, CAST(substr(people.o, 2, instr(substr(people.o, 2), '"') - 1) AS BIGINT) AS people
FROM triples near
JOIN triples location ON location.s = near.o AND location.p = '<http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#hasLocation>'
JOIN triples place ON place.s = location.o AND place.p = '<http://www.geonames.org/ontology#name>'
JOIN triples code ON code.s = location.o AND code.p = '<http://www.geonames.org/ontology#featureCode>'
JOIN triples people ON people.s = location.o AND people.p = '<http://www.geonames.org/ontology#population>'
JOIN triples parent ON parent.s = location.o AND parent.p = '<http://www.geonames.org/ontology#parentADM1>'
JOIN triples state ON state.s = parent.o AND state.p = '<http://www.geonames.org/ontology#name>'
WHERE near.p = '<http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#hasLocatedNearRel>';
CREATE TABLE neighbor AS
SELECT one.sensor, other.sensor AS other FROM place one JOIN place other ON other.id = one.id WHERE other.sensor <> one.sensor;
CREATE TABLE airport AS
SELECT p.sensor, t.s AS airport FROM place p JOIN triples t ON t.o = p.id AND t.p = '<http://dbpedia.org/ontology/city>';
CREATE TABLE site AS
SELECT p.sensor, t.s AS site FROM place p JOIN triples t ON t.o = p.id AND t.p = '<http://dbpedia.org/ontology/location>';
CREATE TABLE hurricane AS
SELECT s AS hurricane, CAST(substr(triples.o, 2, instr(substr(triples.o, 2), '"') - 1) AS BIGINT) AS winds FROM triples WHERE p = '<http://dbpedia.org/property/winds>';
CREATE TABLE force AS
SELECT low.s AS force, CAST(substr(low.o, 2, instr(substr(low.o, 2), '"') - 1) AS BIGINT) AS low,
  CAST(substr(high.o, 2, instr(substr(high.o, 2), '"') - 1) AS BIGINT) AS high
FROM triples low
JOIN triples high ON high.s = low.s AND high.p = '<http://knoesis.wright.edu/ssw/ont/weather.owl#below>'
WHERE low.p = '<http://knoesis.wright.edu/ssw/ont/weather.owl#from>';
CREATE TABLE observation(id VARCHAR, kind VARCHAR, sensor VARCHAR, value BIGINT, unit VARCHAR, t BIGINT);
CREATE TABLE now_observation(id VARCHAR, kind VARCHAR, sensor VARCHAR, value BIGINT, unit VARCHAR, t BIGINT)
