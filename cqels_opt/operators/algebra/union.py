"""UNION."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cqels_opt.operators.algebra.operator import Operator, changing, evaluate
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Rows, concat, empty
from cqels_opt.operators.semijoin_filter import KeyFilter


@dataclass(frozen=True, slots=True)
class UnionNode(Operator):
    """All rows of all parts."""

    parts: tuple[Operator, ...]

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The parts."""
        return self.parts

    def with_inputs(self, inputs: Sequence[Operator]) -> UnionNode:
        """The UNION of other parts."""
        return UnionNode(tuple(inputs))

    @property
    def row_wise(self) -> bool:
        """Whether all parts are."""
        return all(part.row_wise for part in self.parts)

    def output(self, schema: Schema) -> Names:
        """The variables of all parts."""
        return frozenset[str]().union(*(part.output(schema) for part in self.parts))

    def certain(self, schema: Schema) -> Names:
        """What all parts bind."""
        return frozenset.intersection(*(part.certain(schema) for part in self.parts))

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """All of them."""
        return frozenset(names)

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The rows of all parts."""
        return concat([evaluate(part, scope, keys) for part in self.parts])

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The changing rows of all parts."""
        return concat([changing(part, scope, share) for part in self.parts])

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The rows of all parts."""
        return concat([empty([outer.mark]), *(part.for_each(outer, scope) for part in self.parts)])
