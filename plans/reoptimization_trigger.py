"""When the plans of a block are chosen again: when a row count leaves the range in which they were found to be good.

Progressive optimization (Markl et al. 2004) checks the rows of a running plan against the validity range of each operator. Here the rows of
deltas and windows, and of the joins of a delta with one relation, are checked before a micro-batch, and the rows of operators after it.
What is not counted is found at the next choice, which is made at the latest when the plans have cost a multiple of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cqels_opt.plans.reoptimization_budget import FEW

SECONDS = 1e-3
"""Seconds that a choice takes for each delta source and window of a block. A constant, so that plans do not depend on the load."""

EXECUTION_PER_CHOICE = 50.0
"""Plans must cost this multiple of a choice before they are chosen again although no row count has left its range."""


Edge: TypeAlias = "tuple[str, str, str]"
"""Two relations, and the variable on which they are joined."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a source's plan was chosen from.

    ``rows`` has the rows of the delta and of each window, and the factor by which they may change. ``joins`` has for each join of the delta
    with one relation, and ``operators`` for each operator, the expected rows per row of the delta, and such a factor.
    """

    plan: str
    rows: Mapping[str, tuple[float, float]]
    joins: Mapping[Edge, tuple[float, float]]
    operators: Sequence[tuple[float, float]]


class ReoptimizationTrigger:
    """For the delta sources of a block: the basis of each plan, and the cost of the plans since they were chosen."""

    def __init__(self) -> None:
        self._bases: dict[str, Basis] = {}
        self._per_row: dict[str, list[float]] = {}  # observed in the last batch in which rows left their range
        self._spent = 0.0
        self._settled = False  # whether the last choice chose the plans of the one before

    def forget(self) -> None:
        """The next batch chooses."""
        self._bases, self._settled = {}, False

    def chosen(self, bases: Mapping[str, Basis]) -> None:
        """Plans were chosen. If observed rows were the reason and the plan is the same, later rows are compared with the observed ones."""
        before, seen = self._bases, self._per_row
        self._bases, self._per_row, self._spent = dict(bases), {}, 0.0
        self._settled = all(source in before and before[source].plan == basis.plan for source, basis in bases.items())
        for source, rows in seen.items():
            basis = bases.get(source)
            if basis is not None and source in before and before[source].plan == basis.plan:
                known = [(row, factor) for row, (_, factor) in zip(rows, basis.operators, strict=True)]
                self._bases[source] = replace(basis, operators=known)

    def joins(self, source: str) -> Iterable[Edge]:
        """The joins of a source's delta that :meth:`is_due` needs."""
        return self._bases[source].joins if source in self._bases else ()

    def is_due(self, sources: Mapping[str, Mapping[str, float]], sizes: Callable[[str], Mapping[Edge, float]]) -> bool:
        """Whether the plans have to be chosen for a batch.

        ``sources`` has the rows of the delta and the windows of each source; ``sizes`` counts the joins of a source's delta, if asked.
        """
        if not self._settled or self._per_row or sources.keys() != self._bases.keys():
            return True
        if self._spent >= EXECUTION_PER_CHOICE * SECONDS * sum(map(len, sources.values())):
            return True
        moving = {source: rows for source, rows in sources.items() if rows[source]}  # other plans have nothing to do
        if any(self._rows_left(source, rows) for source, rows in moving.items()):
            return True
        return any(self._joins_left(source, rows[source], sizes(source)) for source, rows in moving.items())

    def _rows_left(self, source: str, rows: Mapping[str, float]) -> bool:
        known = self._bases[source].rows
        return not known[source][0] or any(_beyond(known[name][0], now, known[name][1]) for name, now in rows.items())

    def _joins_left(self, source: str, delta: float, sizes: Mapping[Edge, float]) -> bool:
        known = self._bases[source].joins
        return any(_beyond(known[edge][0] * delta, now, known[edge][1]) for edge, now in sizes.items())

    def spend(self, cost: float) -> None:
        """Adds the estimated seconds of a batch whose plans were kept."""
        self._spent += cost

    def share(self, source: str, rows: float) -> float:
        """The rows of a source's delta over those at the choice; 1 where none is kept."""
        if source not in self._bases:
            return 1.0
        before = self._bases[source].rows[source][0]
        return rows / before if before else 0.0

    def observe(self, source: str, rows: float, counts: Sequence[int]) -> None:
        """Takes the rows that a plan's operators gave for a delta of this number of ``rows``."""
        basis = self._bases.get(source)
        if basis is None or not rows or len(counts) != len(basis.operators):
            return
        if any(_beyond(expected * rows, seen, factor) for (expected, factor), seen in zip(basis.operators, counts)):
            self._per_row[source] = [seen / rows for seen in counts]

    # ------------------------------------------------------------------ a restart
    def state(self) -> list[Any]:
        """For a checkpoint."""
        bases = [
            [
                source,
                b.plan,
                [[name, *found] for name, found in b.rows.items()],
                [[*edge, *found] for edge, found in b.joins.items()],
                [list(found) for found in b.operators],
            ]
            for source, b in self._bases.items()
        ]
        return [bases, self._per_row, self._spent, self._settled]

    def resume(self, state: Sequence[Any]) -> None:
        """Continues from a :meth:`state`."""
        bases, self._per_row, self._spent, self._settled = state
        self._bases = {
            source: Basis(
                plan,
                {name: (was, factor) for name, was, factor in rows},
                {(left, right, variable): (per_row, factor) for left, right, variable, per_row, factor in joins},
                [(per_row, factor) for per_row, factor in operators],
            )
            for source, plan, rows, joins, operators in bases
        }


def _beyond(expected: float, now: float, factor: float) -> bool:
    """Whether two row counts differ by more than a factor; counts below :data:`FEW` are not significant."""
    least, most = sorted((max(expected, FEW), max(now, FEW)))
    return most > factor * least
