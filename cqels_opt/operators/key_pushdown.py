"""What is known of the tree of a program before it runs: by which keys its operators look rows up, and how its work can be divided.

A restriction on a variable also holds for an input of an operator where the operator takes the value of the variable from there
unchanged. Each operator knows how far a restriction reaches (:mod:`cqels_opt.operators.algebra.operator`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cqels_opt.operators.algebra.group import GroupNode
from cqels_opt.operators.algebra.operator import Operator, inputs_first
from cqels_opt.operators.algebra.scope import Schema, schema_of
from cqels_opt.operators.blocks import Block


@dataclass(frozen=True)
class Pushdown:
    """How far restrictions to keys reach down the tree of a program, whose answers have these variables."""

    tree: Operator
    blocks: tuple[Block, ...]
    variables: tuple[str, ...]

    @cached_property
    def schema(self) -> Schema:
        """The variables of the blocks."""
        return schema_of(self.blocks)

    @cached_property
    def lookups(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """The variables by whose values rows of each block are looked up: the indexes of its result slots."""
        found: dict[str, set[tuple[str, ...]]] = {block.name: set() for block in self.blocks}
        for operator in inputs_first(self.tree):
            for block, names in operator.lookups_of_changes(self.schema):
                if names:
                    found[block].add(tuple(sorted(names)))
        return {block: tuple(sorted(names)) for block, names in found.items()}

    @cached_property
    def additive(self) -> dict[int, GroupNode]:
        """The groups that are kept as sums, each once, inputs first, by their numbers, which name their files in a checkpoint.

        Groups over static data alone have a number, and are not kept: each task has all their rows.
        """
        groups = (operator for operator in inputs_first(self.tree) if isinstance(operator, GroupNode))
        numbered = enumerate(dict.fromkeys(group for group in groups if group.additive))
        return {number: group for number, group in numbered if group.moves}

    @cached_property
    def materializes(self) -> bool:
        """Whether the current answers can be kept as a bag: they have no order that a snapshot shows."""
        return not self.tree.ordered

    @cached_property
    def spread(self) -> tuple[str, ...]:
        """Answer variables by whose values the tree's work can be divided: all rows that an answer comes from have its values.

        Empty if the tree reads no block: its answers follow the clock alone, and their order or number may not be divided.
        """
        if not self.tree.moves:
            return ()
        return tuple(sorted(self.tree.divisible_by(frozenset(self.variables), self.schema)))
