SELECT d.t AS time, d.creator AS friend, d.id AS post
FROM now_post d
JOIN knows k ON k.friend = d.creator
JOIN account a ON a.account = k.account
WHERE a.person = '<http://www.ins.cwi.nl/sib/person/7>'
