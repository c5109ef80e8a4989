"""EXISTS, as a flag on each row: by a join with its pattern, or with the pattern evaluated for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cqels_opt.operators.algebra.expression_rows import passing
from cqels_opt.operators.algebra.operator import Operator, changing, evaluate, variables_read
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Scope
from cqels_opt.operators.algebra.two_sided import TwoSided, common_intervals, keys_for, matches, with_variables_of
from cqels_opt.operators.interval_join import combine, compatible_pairs, covered
from cqels_opt.operators.rows import Ints, Rows, concat, group_ids
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.query.algebra import Expression

_XSD_BOOLEAN = "<http://www.w3.org/2001/XMLSchema#boolean>"


@dataclass(frozen=True, slots=True)
class ExistsNode(TwoSided):
    """The left side with one more column, ``flag``: the id of true where the right side, the pattern, has a compatible row, else of false.

    With ``reads`` the pattern is evaluated for each row of the input, of which it reads these variables.
    """

    condition: Expression | None
    flag: str
    reads: tuple[str, ...] | None = None

    title = "EXISTS"

    @property
    def correlated(self) -> tuple[Operator, ...]:
        """The pattern, where it is evaluated for each row."""
        return () if self.reads is None else (self.right,)

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The filters of the pattern, which see the input's rows."""
        return () if self.condition is None else (self.condition,)

    @property
    def own_variables(self) -> Names:
        """What the condition and the pattern read."""
        return variables_read(self).union(self.reads or ())

    # ------------------------------------------------------------------ evaluation
    def apply(self, left: Rows, right: Rows, scope: Scope) -> Rows:
        """The rows of the input, cut into the parts with and without a compatible row of the pattern."""
        if (condition := self.condition) is None:
            right = with_variables_of(left, right)
            return self._split(left, *common_intervals(left, right, *compatible_pairs(left, right)), scope)
        owner, joined = matches(left, right, lambda rows: passing(rows, condition, scope))
        return self._split(left, owner, joined.start, joined.end, scope)

    def flagged(self, rows: Rows, scope: Scope) -> Rows:
        """Given rows with the flag."""
        if self.reads is not None:
            owner, joined = matches_for_each(rows, self.right, self.reads, scope)
            return self._split(rows, owner, joined.start, joined.end, scope)
        others = evaluate(self.right, scope, keys_for(self.right, rows, self.touched_by(scope.schema), scope))
        return self.apply(rows, others, scope)

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The input's rows with the flag."""
        if self.reads is None:
            return TwoSided.evaluate(self, scope, keys)
        return self.flagged(evaluate(self.left, scope, self.shares(keys, scope.schema)[0]), scope)

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The changing rows; all rows where the pattern is evaluated for each row and has changes."""
        if self.reads is None:
            return TwoSided.changing(self, scope, share)
        if self.depends_on_instant or self.right.has_changes(scope):
            rows = share.within(evaluate(self.left, scope, share))
        else:
            rows = changing(self.left, scope, share)
        return scope.unsteady(self.flagged(rows, scope))

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The rows within each outer row, with the flag; the pattern sees the outer values."""
        return outer.seen_by(self.left.for_each(outer, scope), lambda rows: self.flagged(rows, scope))

    def _split(self, left: Rows, owner: Ints, start: Ints, end: Ints, scope: Scope) -> Rows:
        """Rows cut into the parts that have a partner, flagged true, and those that have none. Partners of ``owner`` are valid during
        ``[start, end)``.
        """
        yes, no = scope.terms.ids([f'"true"^^{_XSD_BOOLEAN}', f'"false"^^{_XSD_BOOLEAN}'])
        if not len(left):
            return left.with_column(self.flag, np.zeros(0, np.int64))
        parts = zip(covered(left, owner, start, end), (yes, no))
        return concat([part.with_column(self.flag, np.full(len(part), flag)) for part, flag in parts])


def matches_for_each(rows: Rows, pattern: Operator, reads: Sequence[str], scope: Scope) -> tuple[Ints, Rows]:
    """The rows of a pattern for each of some rows, of which it reads some variables: (the row that each belongs to, the rows)."""
    names = [v for v in reads if v in rows.columns]
    group, first = group_ids(rows.values(names), len(rows))
    outer = rows.take(first).only(names)
    start, end = np.full(len(first), scope.high), np.full(len(first), scope.low)
    np.minimum.at(start, group, rows.start)
    np.maximum.at(end, group, rows.end)
    mark = f".given{sum(v.startswith('.given') for v in rows.columns)}"
    outer = Rows({**outer.columns, mark: np.arange(1, len(first) + 1)}, start, end, np.ones(len(first), np.int64))
    found = pattern.for_each(OuterRows(outer, mark), scope)
    mine = found.columns[mark] - 1
    agrees = np.ones(len(found), bool)
    for v in names:
        if v in found.columns:
            inside, outside = found.columns[v], outer.columns[v][mine]
            agrees &= (inside == outside) | (inside == 0) | (outside == 0)
    found = found.take(agrees)
    left = Rows({mark: group + 1}, rows.start, rows.end, rows.n)
    a, b = compatible_pairs(left, found.only([mark]))
    columns = {v: c for v, c in found.columns.items() if v != mark}
    return a, combine(rows, Rows(columns, found.start, found.end, found.n), a, b)
