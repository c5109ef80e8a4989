"""FILTER, where a block cannot apply it."""

from __future__ import annotations

from dataclasses import dataclass

from cqels_opt.operators.algebra.expression_rows import passing
from cqels_opt.operators.algebra.operator import RowWise
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.rows import Rows
from cqels_opt.query.algebra import Expression


@dataclass(frozen=True, slots=True)
class FilterNode(RowWise):
    """Rows whose condition is effectively true."""

    condition: Expression

    title = "FILTER"

    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The condition."""
        return (self.condition,)

    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """The rows that pass."""
        return passing(rows, self.condition, scope)

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The rows that pass, where the condition sees the outer values."""
        return outer.seen_by(self.input.for_each(outer, scope), lambda rows: self.apply(rows, scope))
