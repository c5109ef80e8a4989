"""What operators are evaluated over: the rows of the blocks, the instants of the step, and the groups that are kept as sums."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from cqels_opt.operators.blocks import Block
from cqels_opt.operators.operator_work import TreeWork
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.operators.term_table import TermTable
from cqels_opt.state.result_store import BlockRows

Names: TypeAlias = frozenset[str]


class BlockVariables(NamedTuple):
    """The variables of a block's rows, and those that are bound on every row."""

    output: Names
    certain: Names


Schema: TypeAlias = Mapping[str, BlockVariables]
"""The variables of each block, by its name."""


def schema_of(blocks: Iterable[Block]) -> Schema:
    """The variables of some blocks."""
    found = {}
    for block in blocks:
        patterns = (*(o.binds for o in block.occurrences), *(s.variables for s in block.inner))
        output = frozenset(block.output)
        found[block.name] = BlockVariables(output, output.intersection(v for names in patterns for v in names))
    return found


class Groups(Protocol):
    """The groups of a GROUP BY whose aggregates are kept from step to step."""

    @property
    def touched(self) -> KeyFilter:
        """The groups whose members change in the step."""

    def rows(self, keys: KeyFilter) -> Rows:
        """The rows of the groups that have one of the keys."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tree of operators is evaluated over.

    Intervals are places in the list of ``instants``; the horizon ``[low, high)`` means "always". A path with more than ``most``
    pairs of ends is not computed: PathsTooManyError. ``work`` measures the operators.
    """

    blocks: Mapping[str, BlockRows]
    store: str
    terms: TermTable
    instants: Ints
    low: int
    schema: Schema
    groups: dict[Hashable, Groups] = field(default_factory=dict)
    most: int | None = None
    work: TreeWork = field(default_factory=lambda: TreeWork({}))

    @property
    def high(self) -> int:
        """The end of the horizon."""
        return len(self.instants)

    def always(self, rows: Rows) -> Rows:
        """Rows that are valid at every instant."""
        size = len(rows)
        return Rows(rows.columns, np.full(size, self.low), np.full(size, self.high), rows.n)

    def unsteady(self, rows: Rows) -> Rows:
        """The rows without those that are valid at all instants of the step."""
        return rows.take((rows.start > 0) | (rows.end < self.high))
