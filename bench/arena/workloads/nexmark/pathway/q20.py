"""NEXMark q20: bids on the auctions of category 10, with the auction."""

from typing import Any


def answers(pw: Any, tables: Any) -> Any:
    """An interval join."""
    bid, auction = tables["bid"], tables["auction"]
    offers = auction.filter(auction.category == "<http://example.org/nexmark/category/10>")
    joined = offers.interval_join(bid, offers.t, bid.t, pw.temporal.interval(-9999, 9999), offers.key == bid.auction)
    return joined.select(
        time=pw.if_else(offers.t > bid.t, offers.t, bid.t),
        bid=bid.key,
        price=bid.price,
        auction=offers.key,
        item=offers.item,
        seller=offers.seller,
    )
