-- Static data: places near a station, kinds of precipitation, and speeds of a force of wind. The stream: observations.
CREATE TABLE precipitation AS
SELECT s AS kind FROM triples
WHERE p = '<http://www.w3.org/2000/01/rdf-schema#subClassOf>' AND o = '<http://knoesis.wright.edu/ssw/ont/weather.owl#PrecipitationObservation>';
CREATE TABLE place AS
SELECT near.s AS sensor, place.o AS place, state.o AS state
FROM triples near
JOIN triples location ON location.s = near.o AND location.p = '<http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#hasLocation>'
JOIN triples place ON place.s = location.o AND place.p = '<http://www.geonames.org/ontology#name>'
JOIN triples parent ON parent.s = location.o AND parent.p = '<http://www.geonames.org/ontology#parentADM1>'
JOIN triples state ON state.s = parent.o AND state.p = '<http://www.geonames.org/ontology#name>'
WHERE near.p = '<http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#hasLocatedNearRel>';
CREATE TABLE force AS
SELECT low.s AS force, CAST(substr(low.o, 2, instr(substr(low.o, 2), '"') - 1) AS BIGINT) AS low,
  CAST(substr(high.o, 2, instr(substr(high.o, 2), '"') - 1) AS BIGINT) AS high
FROM triples low
JOIN triples high ON high.s = low.s AND high.p = '<http://knoesis.wright.edu/ssw/ont/weather.owl#below>'
WHERE low.p = '<http://knoesis.wright.edu/ssw/ont/weather.owl#from>';
CREATE TABLE observation(id VARCHAR, kind VARCHAR, sensor VARCHAR, value BIGINT, unit VARCHAR, t BIGINT);
CREATE TABLE now_observation(id VARCHAR, kind VARCHAR, sensor VARCHAR, value BIGINT, unit VARCHAR, t BIGINT)
