"""Transitive closure of rows with intervals: which node reaches which, and when (SPARQL 1.1 §18.4, ALP; a semi-naive fixpoint).

A path exists while all its steps do, so the interval of a path is the intersection along it, and the intervals of a pair of ends are the
union over its paths. Each round prolongs the pairs of the round before by one step, and keeps the parts of intervals in which the pair
was not known yet. It ends because there are finitely many pairs and moments. Known pairs lie in a few indexes of growing size, so that
a round does not sort the pairs of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cqels_opt.errors import CqelsOptError
from cqels_opt.operators.interval_join import Indexed, covered, disjoint
from cqels_opt.operators.rows import Rows, concat, empty
from cqels_opt.storage.compaction_policy import runs_to_merge

SEED, NODE = "seed", "node"


class PathsTooManyError(CqelsOptError):
    """A path has more pairs of ends than allowed."""


def prolonged(rows: Rows, steps: Indexed) -> Rows:
    """Pairs one step longer. ``steps`` has the columns ``here`` and ``there``, and perhaps the graph's; ``rows`` SEED, NODE, and it."""
    on = [v for v in steps.names if v in rows.columns]
    found = [part for part in steps.probe(rows, on) if len(part)]
    longer = [
        Rows(
            {**{v: c for v, c in part.columns.items() if v not in (NODE, "there")}, NODE: part.columns["there"]},
            part.start,
            part.end,
            part.n,
        )
        for part in found
    ]
    return concat([empty([SEED, NODE]), *longer])


def steps_of(rows: Rows, here: str, there: str, graph: str | None) -> Indexed:
    """Rows of a step, indexed by where it begins (and the graph), under the names that :func:`prolonged` knows."""
    columns = {NODE: rows.columns[here], "there": rows.columns[there]}
    if graph is not None:
        columns[graph] = rows.columns[graph]
    return Indexed.of_rows(disjoint(Rows(columns, rows.start, rows.end, rows.n)))


def reached(first: Rows, follow: Callable[[Rows], Rows], known: bool, many: bool, most: int | None = None) -> Rows:
    """All pairs that ``follow``, which prolongs pairs by a step, finds from the first ones, disjoint in time.

    ``known``: the first pairs are paths themselves; with ``many`` steps are repeated. PathsTooManyError beyond ``most`` rows.
    """
    first = disjoint(first)
    found = _Known()
    if known:
        found.add(first)
    last = first
    while len(last):
        last = found.news(disjoint(follow(last)))
        found.add(last)
        if most is not None and found.size > most:
            raise PathsTooManyError(f"more than {most} pairs of ends")
        if not many:
            break
    return found.rows()


class _Known:
    """Pairs that are known, in parts of which each has less than half the rows of the one before."""

    def __init__(self) -> None:
        self.parts: list[Rows] = []
        self.indexed: list[Indexed | None] = []
        self.size = 0

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        self.size += len(rows)
        some = runs_to_merge([len(part) for part in self.parts], arriving=len(rows))
        assert some is not None  # rows arrive
        self.parts[some] = [concat([*self.parts[some], rows])]
        self.indexed[some] = [None]

    def news(self, rows: Rows) -> Rows:
        """Of rows the parts of their intervals in which they are not known."""
        for place, part in enumerate(self.parts):
            if not len(rows):
                break
            side = self.indexed[place]
            if side is None:
                side = self.indexed[place] = Indexed.of_rows(part)
            rows = _without(rows, side)
        return rows

    def rows(self) -> Rows:
        return concat([empty([SEED, NODE]), *self.parts])


def _without(rows: Rows, side: Indexed) -> Rows:
    on: Sequence[str] = [v for v in side.names if v in rows.columns]
    met = list(side.probe(rows.with_column("#owner", np.arange(len(rows))), on))
    if not met:
        return rows
    both = concat(met)
    return covered(rows, both.columns["#owner"], both.start, both.end)[1]
