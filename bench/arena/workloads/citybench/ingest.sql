-- Elements become rows, one per observation; rows that no window can contain any more are deleted.
DELETE FROM now_reading;
INSERT INTO now_reading
SELECT s,
  max(CASE WHEN p = '<http://purl.oclc.org/NET/ssnx/ssn#observedProperty>' THEN o END),
  max(CASE WHEN p = '<http://purl.oclc.org/NET/sao/hasValue>' THEN o END),
  max(g), max(t)
FROM now_elements
WHERE p IN ('<http://purl.oclc.org/NET/ssnx/ssn#observedProperty>', '<http://purl.oclc.org/NET/sao/hasValue>')
GROUP BY s;
DELETE FROM reading WHERE t <= (SELECT min(t) FROM now_elements) - 3600000;
INSERT INTO reading SELECT * FROM now_reading
