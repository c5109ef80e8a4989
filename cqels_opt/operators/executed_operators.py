"""The operators of a plan while it runs, and the rows that pass between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.operator_work import OperatorWork
from cqels_opt.operators.row_limit import LimitedProbe, RowLimit
from cqels_opt.operators.rows import Rows, concat
from cqels_opt.plans import Plan
from cqels_opt.plans.join_methods import REPLICATED, JoinMethod

ENOUGH: Final = 1 << 14
"""Small chunks are concatenated to at most this many rows before they are looked up."""


class ExecutedOperator:
    """An operator of a plan: what it reads, what reads it as its left side, and how many rows it has given.

    ``in_build``: it belongs to a bushy part, so rows that no row of the delta can meet are left out. ``given`` has its rows where another
    task has computed them. ``count`` are the rows of its plan, so it includes those that a semi-join reduction has spared it; ``made`` does
    not. ``limited`` is its method under the ``limit`` on the rows that it makes. ``finished``: it gives no further rows. ``bound`` are the
    variables of its rows, ``read`` those of them that are read later, or more.
    """

    def __init__(
        self,
        plan: Plan,
        input: ExecutedOperator | None,
        build: ExecutedOperator | None,
        in_build: bool,
        method: JoinMethod,
        limit: RowLimit | None,
        bound: frozenset[str],
        read: frozenset[str],
    ) -> None:
        self.bound, self.read = bound, read
        self.plan, self.input, self.build, self.in_build, self.method = plan, input, build, in_build, method
        self.limit = limit
        self.limited = LimitedProbe(limit) if limit is not None and method == REPLICATED else method
        self.finished = False
        self.first: ExecutedOperator = self if input is None else input.first
        self.above: ExecutedOperator | None = None
        if input is not None:
            input.above = self
        self.given: Iterator[Rows] | None = None
        self.count = 0
        self.made = 0.0  # not rounded
        self.work = OperatorWork()

    def give(self, made: float, without_reduction: float) -> None:
        """Counts rows that it gave, and those that it would have given without semi-join reduction; RowLimitError if it gave too many."""
        self.count += round(made)
        self.made += made
        self.spare(round(without_reduction) - round(made))
        if self.limit is not None:
            self.limit.add(made)

    def spare(self, rows: int) -> None:
        """Counts rows that it would have given without semi-join reduction."""
        self.count += rows
        self.work.spared += rows

    def upwards(self) -> Iterator[ExecutedOperator]:
        """The operator, and those that read its rows as their left side."""
        at: ExecutedOperator | None = self
        while at is not None:
            yield at
            at = at.above


class Reduction(NamedTuple):
    """What a semi-join reduction left for the operators above: the indexes of some relations, and for each operator the rows that it would
    give without the reduction, per row that it gives.
    """

    sides: Mapping[str, Sequence[Indexed]]
    factors: Mapping[ExecutedOperator, float]


class Chunk(NamedTuple):
    """Rows, how many rows of the plan each of them represents on average, after equal rows were merged into one, and the reduction that
    they have had.
    """

    rows: Rows
    weight: float = 1.0
    reduction: Reduction | None = None


def together(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks with one weight and one reduction, concatenated to at most :data:`ENOUGH` rows.

    A probe gives a chunk per index of a window, and the next one looks each chunk up in each of its own indexes.
    """
    held: list[Chunk] = []
    for chunk in chunks:
        alike = held and chunk.weight == held[0].weight and chunk.reduction is held[0].reduction
        if held and not (alike and sum(len(one.rows) for one in (*held, chunk)) <= ENOUGH):
            yield held[0]._replace(rows=concat([one.rows for one in held]))
            held = []
        held.append(chunk)
    if held:
        yield held[0]._replace(rows=concat([one.rows for one in held]))


Joined: TypeAlias = tuple[Reduction | None, Iterator[Rows]]
"""Joined rows, and the reduction that their left side has had."""
