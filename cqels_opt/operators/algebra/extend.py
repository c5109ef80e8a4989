"""BIND and ``(expression AS ?variable)``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cqels_opt.operators.algebra.expression_rows import with_value
from cqels_opt.operators.algebra.operator import RowWise, variables_read
from cqels_opt.operators.algebra.outer_rows import OWN, OuterRows, own_values
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Rows
from cqels_opt.query.algebra import Expression


@dataclass(frozen=True, slots=True)
class ExtendNode(RowWise):
    """BIND."""

    variable: str
    expression: Expression

    title = "BIND"

    @property
    def values(self) -> tuple[Expression, ...]:
        """The expression."""
        return (self.expression,)

    @property
    def own_variables(self) -> Names:
        """The variable, and what the expression reads."""
        return variables_read(self) | {self.variable}

    def output(self, schema: Schema) -> Names:
        """The variables of the input, and the new one."""
        return self.input.output(schema) | {self.variable}

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """All but the new one."""
        return frozenset(names) - {self.variable}

    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """The rows with the value in one more column."""
        return with_value(rows, self.variable, self.expression, scope)

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The same, where the expression sees the outer values."""
        valued = self.apply(outer.added(self.input.for_each(outer, scope)), scope)
        valued.columns.pop(OWN + self.variable, None)
        return own_values(valued)
