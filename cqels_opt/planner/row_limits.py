"""Which operators of a delta plan have a limit on their rows, and the plan that follows a delta that one of them has stopped."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from cqels_opt.operators.row_limit import StoppedDelta
from cqels_opt.plans import PlanChoice

TIMES: Final = 10.0
"""An operator that gives more than this multiple of its estimate stops the delta."""

FEWEST: Final = 2_048.0
"""Fewer rows never stop a delta: planning it again takes some milliseconds."""

MOST_STOPS: Final = 8
"""How often the deltas of a query are stopped in a batch; then no operator has a limit."""


def limits_of(choice: PlanChoice) -> tuple[float, ...] | None:
    """The most rows that each operator of a plan may give; None if no other plan is known.

    The scan of the delta and the joins of all relations have none, because every plan has them.
    """
    if choice.runner_up is None:
        return None
    every = {name for step in choice.operators for name in step.covers}
    return tuple(
        inf if number == 0 or set(step.covers) == every else max(FEWEST, TIMES * rows)
        for number, (step, rows) in enumerate(zip(choice.operators, choice.estimated, strict=True))
    )


def rows_seen(stopped: StoppedDelta, estimated: Sequence[float]) -> list[float | None]:
    """What a stopped delta shows of the rows of each operator; None if it shows nothing.

    An operator that had not finished would have given at least the rows that it gave.
    """
    found: list[float | None] = []
    for number, (given, finished, expected) in enumerate(zip(stopped.given, stopped.finished, estimated, strict=True)):
        least = stopped.expected if number == stopped.operator else float(given)
        found.append(least if finished or least > expected else None)
    return found
