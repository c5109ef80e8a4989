"""Descriptions of the Spark jobs that cqels-opt starts, as Spark's UI and status store show them.

The description is a local property of the thread, which ``foreachBatch`` sets for the user's own jobs; it is restored afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from html import escape, unescape

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

DESCRIPTION = "spark.job.description"
LONGEST = 160
"""Characters of a description; Spark's UI shows about as many in a line."""
MOST_NAMES = 3
STEP = "»"  # in the text of a plan that joins
_LINKED = re.compile(r'<a href="[^"]*">(.*?)</a>(.*)', re.DOTALL)


@contextmanager
def described(context: SparkContext, text: str, page: str | None = None) -> Iterator[None]:
    """Describes the jobs that this thread starts in the block, and restores the description that was set before.

    ``page`` is the path of the run's trace page in Spark's UI (:mod:`cqels_opt.spark.trace_page`), which the description then links to.
    """
    before = context.getLocalProperty(DESCRIPTION)
    context.setJobDescription(shortened(text) if page is None else with_link(shortened(text), page))
    try:
        yield
    finally:
        with suppress(Py4JError, AttributeError):  # the session was stopped meanwhile: that is not the error of the block
            context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]  # None removes the property


def with_link(text: str, page: str) -> str:
    """The text, its part before the first colon as a link: markup that Spark's UI shows, with an address within the UI.

    The link is at the beginning, because the UI cuts off what is too wide for a column. Its list of SQL queries shows the markup as text.
    """
    name, colon, what = text.partition(": ")
    return f'<a href="{escape(page)}">{escape(name, quote=False)}</a>{escape(colon + what, quote=False)}'


def without_link(description: str) -> str:
    """The text of a description that may have a link."""
    found = _LINKED.fullmatch(description)
    return unescape(f"{found[1]}{found[2]}") if found else description


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


__all__ = ["DESCRIPTION", "batch_name", "described", "joined", "shortened", "with_link", "without_link"]
