"""DISTINCT."""

from __future__ import annotations

from dataclasses import dataclass

from cqels_opt.operators.aggregate import earliest
from cqels_opt.operators.algebra.operator import Keyed, Restricting
from cqels_opt.operators.algebra.order import ORDER
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.interval_join import disjoint
from cqels_opt.operators.rows import Rows


@dataclass(frozen=True, slots=True)
class DistinctNode(Restricting, Keyed):
    """DISTINCT, by these variables."""

    title = "DISTINCT"

    @property
    def partition_by(self) -> tuple[str, ...]:
        """All of its variables."""
        return self.variables

    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """Equal rows once at a time, at the position of the first of them."""
        return _once(rows.only([*self.variables, ORDER]))

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The same within each outer row."""
        return _once(self.input.for_each(outer, scope).only([*self.variables, outer.mark, ORDER]))


def _once(rows: Rows) -> Rows:
    return earliest(rows, ORDER) if ORDER in rows.columns else disjoint(rows)
