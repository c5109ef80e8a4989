"""The join of two patterns that no plan of a block can join."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.algebra.two_sided import TwoSided
from cqels_opt.operators.interval_join import join
from cqels_opt.operators.rows import Rows


@dataclass(frozen=True, slots=True)
class JoinNode(TwoSided):
    """Compatible rows of both sides."""

    title = "JOIN"

    def output(self, schema: Schema) -> Names:
        """The variables of both sides."""
        return self.left.output(schema) | self.right.output(schema)

    def certain(self, schema: Schema) -> Names:
        """What either side binds."""
        return self.left.certain(schema) | self.right.certain(schema)

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """Those that the side binds on every row, or that the other side does not bind."""
        mine, other = self.inputs[side], self.inputs[1 - side]
        kept = mine.output(schema).intersection(names)
        return kept & (mine.certain(schema) | (kept - other.output(schema)))

    def first_side(self, names: Collection[str], schema: Schema) -> int:
        """The side to which more of a restriction applies."""
        return int(len(self.below(1, names, schema)) > len(self.below(0, names, schema)))

    def divisible_by(self, names: Names, schema: Schema) -> Names:
        """Those on which both sides agree and that reach both."""
        return TwoSided.divisible_by(self, names.intersection(self.touched_by(schema)), schema) if self.moves else names

    def apply(self, left: Rows, right: Rows, scope: Scope) -> Rows:
        """All compatible pairs, merged."""
        return join(left, right)

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The join within each outer row."""
        return join(self.left.for_each(outer, scope), self.right.for_each(outer, scope))
