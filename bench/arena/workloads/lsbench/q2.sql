SELECT d.t AS time, d.id AS post
FROM now_post d
JOIN account a ON a.account = d.creator
WHERE a.person = '<http://www.ins.cwi.nl/sib/person/7>'
