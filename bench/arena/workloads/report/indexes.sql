CREATE INDEX names_person ON names(person, name);
CREATE INDEX places_loc ON places(loc, name);
CREATE INDEX coauthors_both ON coauthors(person1, person2);
CREATE INDEX citing_or_cited_both ON citing_or_cited(person1, person2);
CREATE INDEX times_cited_both ON times_cited(person1, person2, numPub);
CREATE INDEX located_person ON located(person, loc, t);
CREATE INDEX located_loc ON located(loc, t);
CREATE INDEX located_t ON located(t)
