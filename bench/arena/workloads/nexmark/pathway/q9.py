"""NEXMark q9, continuously: with each new bid, the highest bid so far on its auction."""

from typing import Any


def answers(pw: Any, tables: Any) -> Any:
    """Interval joins of each bid with the bids before it and with its auction, then groups."""
    bid, auction = tables["bid"], tables["auction"]
    other = bid.copy()
    before = pw.temporal.interval(-9999, 0)
    offered = bid.interval_join(auction, bid.t, auction.t, before, bid.auction == auction.key)
    offered = offered.select(key=bid.key, auction=bid.auction, t=bid.t)
    pairs = offered.interval_join(other, offered.t, other.t, before, offered.auction == other.auction)
    pairs = pairs.select(key=offered.key, auction=offered.auction, t=offered.t, price=other.price)
    return pairs.groupby(pairs.key, pairs.auction, pairs.t).reduce(
        time=pairs.t, bid=pairs.key, auction=pairs.auction, highest=pw.reducers.max(pairs.price)
    )
