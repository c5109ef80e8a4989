"""NEXMark q4: the average closing price by category; auctions close at the end of their window."""

from typing import Any


def answers(pw: Any, tables: Any) -> Any:
    """A join of rows of one window, then windows that are emitted once."""
    bid, auction = tables["bid"], tables["auction"]
    bids = bid.select(bid.auction, bid.price, bid.t, ends=(bid.t + 9999) // 10000 * 10000)
    offers = auction.select(auction.key, auction.category, auction.t, ends=(auction.t + 9999) // 10000 * 10000)
    pairs = bids.join(offers, bids.auction == offers.key, bids.ends == offers.ends)
    pairs = pairs.select(
        auction=offers.key, category=offers.category, price=bids.price, t=pw.if_else(bids.t > offers.t, bids.t, offers.t)
    )
    closed = pairs.windowby(
        pairs.t - 1, window=pw.temporal.tumbling(10000), instance=pairs.auction, behavior=pw.temporal.exactly_once_behavior()
    ).reduce(ends=pw.this._pw_window_end, category=pw.reducers.any(pw.this.category), final=pw.reducers.max(pw.this.price))
    found = closed.groupby(closed.ends, closed.category).reduce(
        time=closed.ends, category=closed.category, total=pw.reducers.sum(closed.final), count=pw.reducers.count()
    )
    return found.select(found.time, found.category, average=(2 * found.total + found.count) // (2 * found.count))
