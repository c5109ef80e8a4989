"""ORDER BY, OFFSET and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cqels_opt.lod.multiplicities import LIMIT, summed
from cqels_opt.operators.aggregate import ranks
from cqels_opt.operators.algebra.expression_rows import with_value
from cqels_opt.operators.algebra.operator import Keyed, variables_read
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Scope
from cqels_opt.operators.rows import Ints, Rows, concat, empty, group_ids
from cqels_opt.query.algebra import Expression
from cqels_opt.query.values import sort_key
from cqels_opt.stats.frequencies import distinct_values

ORDER = "#order"  # hidden column: the place of a row under ORDER BY


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
            group, first = group_ids(rows.values(self.each), len(rows))
            whole = replace(self, each=())
            return concat([whole.apply(rows.take(group == number), scope) for number in range(len(first))])
        rows = self._sorted(rows, scope)
        return rows if self.limit is None and not self.offset else self._cut(rows)

    def _sorted(self, rows: Rows, scope: Scope) -> Rows:
        keys: list[Ints] = [rows.columns[ORDER]] if not self.keys and ORDER in rows.columns else []
        for place, (expression, _) in enumerate(self.keys):
            rows = with_value(rows, f"{ORDER}{place}", expression, scope)
        for place, (_, descending) in enumerate(self.keys):
            rank = ranks(rows.columns.pop(f"{ORDER}{place}"), scope.terms, sort_key)[0]
            keys.append(-rank if descending else rank)
        ties = [ranks(rows.columns[v], scope.terms)[0] for v in self.ties if v in rows.columns]
        rows = rows.take(np.lexsort((*reversed(ties), *reversed(keys))) if keys or ties else np.arange(len(rows)))
        return rows.with_column(ORDER, np.arange(len(rows))) if self.keys else rows

    def _cut(self, rows: Rows) -> Rows:
        upto = LIMIT if self.limit is None else self.offset + self.limit
        edges = distinct_values(np.concatenate([rows.start, rows.end]))
        parts = []
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist()):
            alive = rows.take((rows.start <= begin) & (rows.end >= end))
            own = np.minimum(alive.n, upto)  # more copies of one row than LIMIT lets through make no difference
            reached = summed(own, np.cumsum)
            n = np.clip(reached, self.offset, upto) - np.clip(reached - own, self.offset, upto)
            some = n > 0
            kept = alive.take(some)
            parts.append(Rows(kept.columns, np.full(len(kept), begin), np.full(len(kept), end), n[some]))
        return concat(parts) if parts else rows.take(np.empty(0, np.int64))

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The rows of each outer row by themselves."""
        rows = self.input.for_each(outer, scope)
        numbers = distinct_values(rows.columns[outer.mark]).tolist()
        pieces = [self.apply(rows.take(rows.columns[outer.mark] == number), scope) for number in numbers]
        return concat([empty([*rows.columns]), *pieces])
