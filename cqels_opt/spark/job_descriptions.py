"""Descriptions of the Spark jobs that cqels-opt starts, as Spark's UI and status store show them.

The description is a local property of the thread, which ``foreachBatch`` sets for the user's own jobs; it is restored afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

DESCRIPTION = "spark.job.description"
LONGEST = 160
"""Characters of a description; Spark's UI shows about as many in a line."""
MOST_NAMES = 3
STEP = "»"  # in the text of a plan that joins


@contextmanager
def described(context: SparkContext, text: str) -> Iterator[None]:
    """Describes the jobs that this thread starts in the block, and restores the description that was set before."""
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(shortened(text))
    try:
        yield
    finally:
        with suppress(Py4JError, AttributeError):  # the session was stopped meanwhile: that is not the error of the block
            context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes the property


def batch_name(queries: Iterable[str], batch: int) -> str:
    """``q1 batch 12``, or ``7 queries batch 12``."""
    names = list(queries)
    named = ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names):,} queries"
    return f"{named} batch {batch}".strip()


def joined(plans: Iterable[object]) -> str:
    """``join departures » planes[?tail] and 2 more plans``; ``evaluate`` if nothing is joined."""
    rest = iter(plans)
    first = next((text for plan in rest if STEP in (text := str(plan))), None)
    if first is None:
        return "evaluate"
    more = sum(1 for _ in rest)  # many queries have many plans: their texts are not needed
    ending = f" and {more:,} more plan{'s' if more > 1 else ''}" if more else ""
    return f"join {shortened(first, LONGEST - 60)}{ending}"


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text, cut off with ``…`` if it is too long."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


__all__ = ["DESCRIPTION", "batch_name", "described", "joined", "shortened"]
