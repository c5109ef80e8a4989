SELECT d.t AS time, k.friend, m.friend AS other, d.item
FROM account a
JOIN knows k ON k.account = a.account
JOIN knows m ON m.account = k.friend
JOIN now_likes d ON d.account = m.friend
WHERE a.person = '<http://www.ins.cwi.nl/sib/person/7>'
