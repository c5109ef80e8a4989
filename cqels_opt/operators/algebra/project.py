"""The projection of a sub-select, or of the query."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cqels_opt.operators.algebra.operator import Restricting, RowWise
from cqels_opt.operators.algebra.order import ORDER, OrderNode
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Rows


@dataclass(frozen=True, slots=True)
class ProjectNode(Restricting, RowWise):
    """The rows restricted to variables."""

    @property
    def own_variables(self) -> Names:
        """The variables."""
        return frozenset(self.variables)

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """Those that stay: a variable that does not may have the name of another one outside."""
        return frozenset(names).intersection(self.variables)

    @property
    def _columns(self) -> tuple[str, ...]:
        """The variables, and the order where the input makes one: the order of a sub-select ends with it."""
        return (*self.variables, ORDER) if isinstance(self.input, OrderNode) and self.input.keys else self.variables

    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """The rows with these columns."""
        return rows.only(self._columns)

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The same; below, only the outer values of these variables are seen."""
        inside = self.input.for_each(outer.only(self.variables), scope)
        return inside.only([*self.variables, outer.mark, *self._columns[len(self.variables) :]])
