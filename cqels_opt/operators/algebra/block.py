"""The rows of a block of joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cqels_opt.operators.algebra.operator import Leaf
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter


@dataclass(frozen=True, slots=True)
class BlockNode(Leaf):
    """The rows of a block."""

    block: str

    row_wise = True

    @property
    def blocks(self) -> Names:
        """This one."""
        return frozenset((self.block,))

    def output(self, schema: Schema) -> Names:
        """What the block keeps for the operators above it."""
        return schema[self.block].output

    def certain(self, schema: Schema) -> Names:
        """What its inner joins bind."""
        return schema[self.block].certain

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """By the indexes of the result slots."""
        return scope.blocks[self.block].of(keys)

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The rows that begin or end in the step."""
        return scope.blocks[self.block].changing(share.narrowed(self.output(scope.schema)))

    def has_changes(self, scope: Scope) -> bool:
        """Whether there are such rows."""
        return len(scope.blocks[self.block].changing(EVERY)) > 0

    def all_change(self, scope: Scope) -> bool:
        """Whether none is valid during the whole step."""
        return scope.blocks[self.block].all_change()

    def lookups(self, names: Names, schema: Schema) -> Iterator[tuple[str, Names]]:
        """Its own rows by these variables."""
        yield self.block, names & self.output(schema)

    def divisible_by(self, names: Names, schema: Schema) -> Names:
        """The variables that its rows have."""
        return names & self.output(schema)
