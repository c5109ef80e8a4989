"""NEXMark q3: who sells in category 10 in three states."""

from typing import Any


def answers(pw: Any, tables: Any) -> Any:
    """An interval join of filtered inputs."""
    person, auction = tables["person"], tables["auction"]
    offers = auction.filter(auction.category == "<http://example.org/nexmark/category/10>")
    people = person.filter((person.state == '"OR"') | (person.state == '"ID"') | (person.state == '"CA"'))
    joined = offers.interval_join(people, offers.t, people.t, pw.temporal.interval(-9999, 9999), offers.seller == people.key)
    return joined.select(
        time=pw.if_else(offers.t > people.t, offers.t, people.t),
        name=people.name,
        city=people.city,
        state=people.state,
        auction=offers.key,
    )
