SELECT d.t AS time, d.property, d.result AS free, c.latitude, c.longitude, o.result AS degrees
FROM now_reading d
JOIN place c ON c.property = d.property
JOIN reading o ON o.t <= d.t AND o.t > d.t - 3600000
JOIN property p2 ON p2.id = o.property AND p2.class = '<http://www.insight-centre.org/citytraffic#Temperature>'
WHERE d.graph LIKE '<http://www.insight-centre.org/dataset/SampleEventService#AarhusParkingDataSALLING/%' AND o.graph LIKE '<http://www.insight-centre.org/dataset/SampleEventService#AarhusWeatherData0/%'
