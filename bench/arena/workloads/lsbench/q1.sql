SELECT t AS time, '<http://rdfs.org/sioc/ns#creator_of>' AS p, id AS o
FROM now_post
WHERE creator = '<http://www.ins.cwi.nl/sib/user/7>'
