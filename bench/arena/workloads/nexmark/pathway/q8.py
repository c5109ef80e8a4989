"""NEXMark q8: new users who also offer an auction within the window."""

from typing import Any


def answers(pw: Any, tables: Any) -> Any:
    """An interval join."""
    person, auction = tables["person"], tables["auction"]
    joined = person.interval_join(auction, person.t, auction.t, pw.temporal.interval(-9999, 9999), person.key == auction.seller)
    return joined.select(
        time=pw.if_else(person.t > auction.t, person.t, auction.t), seller=person.key, name=person.name, auction=auction.key
    )
