-- The window of a new observation of one road; a new one of the other road meets NOW at its own time alone, so no second part is needed.
SELECT d.t AS time, d.id AS one, d.result AS speed, o.id AS other, o.result AS vehicles
FROM now_reading d
JOIN property p1 ON p1.id = d.property AND p1.class = '<http://www.insight-centre.org/citytraffic#AvgSpeed>'
JOIN reading o ON o.t <= d.t AND o.t > d.t - 600000
JOIN property p2 ON p2.id = o.property AND p2.class = '<http://www.insight-centre.org/citytraffic#VehicleCount>'
WHERE d.graph LIKE '<http://www.insight-centre.org/dataset/SampleEventService#AarhusTrafficData182955/%' AND o.graph LIKE '<http://www.insight-centre.org/dataset/SampleEventService#AarhusTrafficData158505/%'
