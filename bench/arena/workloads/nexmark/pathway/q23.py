"""NEXMark q23: bids with their auction, the seller and the bidder."""

from typing import Any


def answers(pw: Any, tables: Any) -> Any:
    """Interval joins of two inputs each; ``first`` and ``last`` are the least and the greatest time of a row."""
    bid, auction, person = tables["bid"], tables["auction"], tables["person"]
    near = pw.temporal.interval(-9999, 9999)
    rows = bid.interval_join(auction, bid.t, auction.t, near, bid.auction == auction.key)
    rows = rows.select(
        bid=bid.key,
        bidder=bid.bidder,
        price=bid.price,
        item=auction.item,
        seller=auction.seller,
        t=bid.t,
        first=pw.if_else(bid.t < auction.t, bid.t, auction.t),
        last=pw.if_else(bid.t < auction.t, auction.t, bid.t),
    )
    for key, name in (("seller", "sellerName"), ("bidder", "bidderName")):
        who = person.copy()
        joined = rows.interval_join(who, rows.t, who.t, near, rows[key] == who.key)
        kept = [rows[column] for column in rows.column_names() if column not in ("first", "last")]
        first = pw.if_else(who.t < rows.first, who.t, rows.first)
        last = pw.if_else(who.t > rows.last, who.t, rows.last)
        joined = joined.select(*kept, first=first, last=last, **{name: who.name})
        rows = joined.filter(joined.last - joined.first < 10000)
    return rows.select(
        time=rows.last, bid=rows.bid, item=rows.item, sellerName=rows.sellerName, bidderName=rows.bidderName, price=rows.price
    )
