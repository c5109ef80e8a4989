"""MINUS."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.algebra.two_sided import TwoSided, common_intervals, with_variables_of
from cqels_opt.operators.interval_join import compatible_pairs, covered
from cqels_opt.operators.rows import Rows


@dataclass(frozen=True, slots=True)
class MinusNode(TwoSided):
    """MINUS. Variables ``apart`` must agree as others do, but do not count as shared."""

    apart: tuple[str, ...] = ()

    title = "MINUS"

    def apply(self, left: Rows, right: Rows, scope: Scope) -> Rows:
        """The left rows while no right row that shares a variable is compatible."""
        return _removed(left, right, self.apart)

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The same within each outer row."""
        return _removed(self.left.for_each(outer, scope), self.right.for_each(outer, scope), (outer.mark, *self.apart))


def _removed(left: Rows, right: Rows, apart: Collection[str]) -> Rows:
    right = with_variables_of(left, right)
    a, b = compatible_pairs(left, right, apart)
    return covered(left, *common_intervals(left, right, a, b))[1]
