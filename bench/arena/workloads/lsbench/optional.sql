SELECT d.t AS time, d.creator AS "user", d.id AS post, f.friend
FROM now_post d
LEFT JOIN (SELECT k.account, k.friend, s.channel FROM knows k JOIN subscriber s ON s.account = k.friend) f
  ON f.account = d.creator AND f.channel = d.channel
