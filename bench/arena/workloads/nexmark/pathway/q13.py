"""NEXMark q13: bids with static data about the channel."""

from typing import Any


def answers(pw: Any, tables: Any) -> Any:
    """A join with the static table."""
    bid, channel = tables["bid"], tables["channel"]
    return bid.join(channel, bid.channel == channel.key).select(
        time=bid.t, bid=bid.key, price=bid.price, company=channel.company, country=channel.country
    )
