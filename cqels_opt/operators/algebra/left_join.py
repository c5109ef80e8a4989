"""OPTIONAL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cqels_opt.operators.algebra.exists import ExistsNode
from cqels_opt.operators.algebra.expression_rows import passing
from cqels_opt.operators.algebra.operator import Operator, variables_read
from cqels_opt.operators.algebra.outer_rows import OuterRows, Seeing, as_they_are
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.algebra.two_sided import TwoSided, matches
from cqels_opt.operators.interval_join import covered
from cqels_opt.operators.rows import Rows, concat
from cqels_opt.query.algebra import Expression


@dataclass(frozen=True, slots=True)
class LeftJoinNode(TwoSided):
    """OPTIONAL. ``tests`` are the EXISTS and timestamp() of its condition, which reads their flags; their inputs are the joined rows."""

    condition: Expression | None
    tests: tuple[ExistsNode, ...] = ()

    title = "OPTIONAL"

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Both sides, and the patterns of the tests."""
        return (self.left, self.right, *self.correlated)

    def with_inputs(self, inputs: Sequence[Operator]) -> LeftJoinNode:
        """The OPTIONAL with other sides and patterns of tests."""
        left, right, *patterns = inputs
        tests = tuple(replace(test, right=pattern) for test, pattern in zip(self.tests, patterns))
        return replace(self, left=left, right=right, tests=tests)

    @property
    def correlated(self) -> tuple[Operator, ...]:
        """The patterns of the tests."""
        return tuple(test.right for test in self.tests)

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The filters of the optional group."""
        return () if self.condition is None else (self.condition,)

    @property
    def own_variables(self) -> Names:
        """What the condition and the tests read."""
        return variables_read(self).union(*(test.own_variables for test in self.tests))

    def output(self, schema: Schema) -> Names:
        """The variables of both sides."""
        return self.left.output(schema) | self.right.output(schema)

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """Of the left side, those that it binds on every row or that the right side does not bind."""
        if side:
            return frozenset()
        kept = self.left.output(schema).intersection(names)
        return kept & (self.left.certain(schema) | (kept - self.right.output(schema)))

    def apply(self, left: Rows, right: Rows, scope: Scope) -> Rows:
        """The joined rows, and the left rows where they have no partner."""
        return self._joined(left, right, scope, as_they_are)

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The same within each outer row, whose values the condition sees."""
        return self._joined(self.left.for_each(outer, scope), self.right.for_each(outer, scope), scope, outer.seen_by)

    def _joined(self, left: Rows, right: Rows, scope: Scope, seeing: Seeing) -> Rows:
        if not len(left):
            return left
        owner, joined = matches(left, right, lambda rows: seeing(rows, lambda more: self._tested(more, scope)))
        alone = covered(left, owner, joined.start, joined.end)[1]
        padded = {v: alone.columns.get(v, np.zeros(len(alone), np.int64)) for v in dict.fromkeys([*left.columns, *right.columns])}
        return concat([joined, Rows(padded, alone.start, alone.end, alone.n)])

    def _tested(self, rows: Rows, scope: Scope) -> Rows:
        """The rows that pass the condition."""
        for test in self.tests:
            rows = test.flagged(rows, scope)
        rows = rows if self.condition is None else passing(rows, self.condition, scope)
        flags = {test.flag for test in self.tests}
        return rows.only([v for v in rows.columns if v not in flags])
