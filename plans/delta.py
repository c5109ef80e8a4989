"""The order of the occurrences in the delta rule (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Mapping


def occurrence_order(contents: Mapping[str, float | None]) -> list[str]:
    """The delta sources of a block in the order in which the delta rule should take them: largest content first.

    The new rows of a block are the union over i of *old-and-new of the occurrences before i ⋈ Δi ⋈ old of those after i*.
    Any order is right, and each decides what the terms see. Every term of a source meets the old part of what comes later, so
    the small windows should come last: a ``[NOW]`` window has hardly an old part, and with the 30-second window before it,
    the term of the large window's delta finds next to nothing, while the term of the small window, which runs against old and
    new of the large one, does the work once. ``contents`` is the rows of each occurrence before the batch; None (not
    observed) counts as large. Equal contents keep their order.
    """
    return sorted(contents, key=lambda source: -(float("inf") if (rows := contents[source]) is None else rows))
