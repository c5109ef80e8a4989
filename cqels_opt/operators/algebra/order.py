"""ORDER BY, OFFSET and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.multiplicities import LIMIT, summed
from cqels_opt.lod.order import run_starts
from cqels_opt.operators.aggregate import places_as_terms, ranks
from cqels_opt.operators.algebra.expression_rows import with_value
from cqels_opt.operators.algebra.operator import Keyed, changing, evaluate, has_instant, no_rows, variables_read
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Scope
from cqels_opt.operators.rows import Ints, Rows, concat, empty, group_ids
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.query.algebra import Expression
from cqels_opt.query.values import sort_key
from cqels_opt.rdf.ids import numeric
from cqels_opt.stats.frequencies import distinct_values

ORDER = "#order"  # hidden column: the place of a row under ORDER BY

CELLS = 1 << 18
"""The most pairs of a row and a stretch of time that are compared at once."""

MOST_PAIRS = 1 << 22
"""The most pairs of a row and a stretch of time in which it is valid that are held at once."""

PAIR = 4
"""The time that such a pair takes, over that of comparing a row with a stretch of time."""

FIRST_ROWS = 64
"""Rows that are compared first, and twice as many each time after that: most stretches of time need few rows."""


@dataclass(frozen=True, slots=True)
class OrderNode(Keyed):
    """ORDER BY, OFFSET and LIMIT together. ``ties`` are the variables whose terms order rows of equal keys.

    Rows of each value of ``each`` are cut by themselves.
    """

    keys: tuple[tuple[Expression, bool], ...]
    offset: int
    limit: int | None
    ties: tuple[str, ...]
    each: tuple[str, ...] = ()

    partition_by = ()  # every row can change the place of every other
    ordered = True

    @property
    def values(self) -> tuple[Expression, ...]:
        """The sort keys."""
        return tuple(expression for expression, _ in self.keys)

    @property
    def own_variables(self) -> Names:
        """What the sort keys read, and the variables of ties."""
        return variables_read(self).union(self.ties, self.each)

    @property
    def title(self) -> str:
        """ORDER BY, or LIMIT where it has no sort keys."""
        return "ORDER BY" if self.keys else "LIMIT"

    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """The rows in order, and of each stretch of time in which no row begins or ends those that LIMIT leaves."""
        if not len(rows):
            return rows.with_column(ORDER, np.zeros(0, np.int64))
        if self.each:
            group, _ = group_ids(rows.values(self.each), len(rows))
            whole = replace(self, each=())
            return concat([whole.apply(some, scope) for some in _of_each(rows, group)])
        rows = self._sorted(rows, scope)
        return rows if self.limit is None and not self.offset else self._cut(rows)

    def _sorted(self, rows: Rows, scope: Scope) -> Rows:
        keys: list[NDArray[Any]] = [rows.columns[ORDER]] if not self.keys and ORDER in rows.columns else []
        for place, (expression, _) in enumerate(self.keys):
            rows = with_value(rows, f"{ORDER}{place}", expression, scope)
        for place, (_, descending) in enumerate(self.keys):
            rank = _by_value(rows.columns.pop(f"{ORDER}{place}"), scope)
            keys.append(-rank if descending else rank)
        ties = [places_as_terms(rows.columns[v], scope.terms) for v in self.ties if v in rows.columns]
        rows = rows.take(np.lexsort((*reversed(ties), *reversed(keys))) if keys or ties else np.arange(len(rows)))
        return rows.with_column(ORDER, np.arange(len(rows))) if self.keys else rows

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The function of all rows if some change, unless the result depends on the instant.

        Changes are looked for below all ordered operators: each of them moves the places of other rows, so an ordered input would sort all
        its rows for its changes, and once more for the whole.
        """
        if has_instant(self) or not self.input.ordered:
            return Keyed.changing(self, scope, share)
        below = self.input
        while below.ordered:
            (below,) = below.inputs
        if not len(changing(below, scope)):
            return no_rows(self, scope)
        return scope.unsteady(self.apply(evaluate(self.input, scope), scope))

    def _cut(self, rows: Rows) -> Rows:
        """What OFFSET and LIMIT leave of rows in order."""
        upto = LIMIT if self.limit is None else self.offset + self.limit
        edges = distinct_values(np.concatenate([rows.start, rows.end]))
        first, last = np.searchsorted(edges, rows.start), np.searchsorted(edges, rows.end)
        pairs, stretches = int((last - first).sum()), len(edges) - 1
        read = min(len(rows), FIRST_ROWS + upto * len(rows) * stretches / max(1, pairs))  # about, until all have enough
        if pairs <= MOST_PAIRS and PAIR * pairs < read * stretches:
            return self._cut_pairs(rows, first, last, edges, upto)
        return self._cut_in_turn(rows, first, last, edges, upto)

    def _cut_pairs(self, rows: Rows, first: Ints, last: Ints, edges: Ints, upto: int) -> Rows:
        """From all pairs of a row and a stretch of time in which it is valid."""
        row = np.repeat(np.arange(len(rows)), last - first)
        stretch = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - last, last - first)
        order = np.argsort(stretch, kind="stable")
        row, stretch = row[order], stretch[order]
        own = np.minimum(rows.n, upto)[row]  # more copies of one row than LIMIT lets through make no difference
        begins = run_starts((stretch,))

        def within(n: Ints) -> Ints:
            total: Ints = np.cumsum(n)
            before: Ints = np.repeat(total[begins] - n[begins], np.diff(begins, append=len(n)))
            return np.subtract(total, before)

        n = self._left_of(summed(own, within), own, upto)
        kept = np.flatnonzero(n)
        kept = kept[np.argsort(row[kept], kind="stable")]
        return _during(rows, row[kept], stretch[kept], n[kept], edges)

    def _cut_in_turn(self, rows: Rows, first: Ints, last: Ints, edges: Ints, upto: int) -> Rows:
        """Row by row: a stretch of time that has as many rows as LIMIT asks for reads no later ones."""
        stretches, counted = np.arange(len(edges) - 1), np.zeros(len(edges) - 1, np.int64)
        parts = [rows.between(0, 0)]
        at, size = 0, FIRST_ROWS
        while at < len(rows) and len(stretches):
            some = slice(at, at + max(1, min(size, CELLS // len(stretches))))
            alive = (first[some, None] <= stretches) & (last[some, None] > stretches)
            own = np.where(alive, np.minimum(rows.n[some], upto)[:, None], 0)
            reached = summed(np.vstack([counted, own]), lambda n: np.cumsum(n, axis=0))[1:]
            n = self._left_of(reached, own, upto)
            row, place = np.nonzero(n)
            parts.append(_during(rows.between(some.start, some.stop), row, stretches[place], n[row, place], edges))
            waiting = reached[-1] < upto
            stretches, counted, at, size = stretches[waiting], reached[-1][waiting], some.stop, 2 * size
        return concat(parts)

    def _left_of(self, reached: Ints, own: Ints, upto: int) -> Ints:
        """What OFFSET and LIMIT leave of each row's ``own`` copies; with these there are ``reached`` copies."""
        left: Ints = np.clip(reached, self.offset, upto) - np.clip(reached - own, self.offset, upto)
        return left

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The rows of each outer row by themselves."""
        rows = self.input.for_each(outer, scope)
        pieces = [self.apply(some, scope) for some in _of_each(rows, rows.columns[outer.mark])]
        return concat([empty([*rows.columns]), *pieces])


def _of_each(rows: Rows, group: Ints) -> list[Rows]:
    """The rows of each group, in their order."""
    by_group = np.argsort(group, kind="stable")
    return [rows.take(places) for places in np.split(by_group, run_starts((group[by_group],))[1:])] if len(rows) else []


def _during(rows: Rows, row: Ints, stretch: Ints, n: Ints, edges: Ints) -> Rows:
    """Rows in stretches of time between edges, ordered by row and stretch; in stretches that follow on each other a row is one."""
    begins = np.flatnonzero(np.diff(row, prepend=-1) | (np.diff(stretch, prepend=-1) != 1) | np.diff(n, prepend=0))
    ends = np.append(begins[1:], len(row))[: len(begins)] - 1
    kept = rows.take(row[begins])
    return Rows(kept.columns, edges[stretch[begins]], edges[stretch[ends] + 1], n[begins])


def _by_value(ids: Ints, scope: Scope) -> NDArray[Any]:
    """Numbers in the order of some ids under ORDER BY, equal for equal values; of most inline numbers these themselves."""
    values, exact = numeric(ids)
    return values if exact.all() else ranks(ids, scope.terms, sort_key)[0]
