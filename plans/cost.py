"""What a cost model is: the protocol, and the constants and formulas that several models and join methods share.

A cost model is vectorised: its arguments are arrays of row counts with one entry per alternative, and so is its result. ``Ψ`` of a
pattern (CQELS report, §5) is the least sum of Φ over its joins plus the cost of reading its relations (``memo.py``). Each built-in model
is one file of ``cost_models/``; an installed package adds a model by an entry point (docs/extending.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.query_graph import JoinKind

Rows: TypeAlias = "NDArray[np.float64]"
Count = TypeVar("Count", float, Rows)
"""Row counts: one, or an array of them."""

Shuffled: TypeAlias = Literal["nothing", "left", "both"]
"""The sides of a join on variables that go through a shuffle first."""


class JoinOperator(IntEnum):
    """The logical implementation of a join that the plan search prices.

    PROBE reads its right side through an index and never scans it: the right side is one relation, or a static pattern that the model
    takes as pre-computed. HASH builds its right side first. LOOP pairs every row with every row. OPTIONAL, ANTI and SEMI look each row
    up as PROBE does. FILTER evaluates a condition on each row. MULTIWAY probes several relations that close a cycle at once: for each row
    the one with the fewest matches proposes candidates, and the others verify them.
    """

    PROBE = 0
    HASH = 1
    LOOP = 2
    OPTIONAL = 3
    ANTI = 4
    SEMI = 5
    FILTER = 6
    MULTIWAY = 7

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class JoinShape:
    """What decides which operators can do a join: whether the sides share a variable, the right side is a single relation, the right
    side is static; the kind of join; and whether the relations of the right side close a cycle (``cycles.py``).
    """

    connected: bool
    single: bool
    static: bool
    kind: JoinKind = "inner"
    closing: bool = False


class CostModel(Protocol):
    """Prices operators. All arguments of :meth:`join` and :meth:`scan` are row counts."""

    @property
    def name(self) -> str:
        """Its name in options and in EXPLAIN."""

    @property
    def unit(self) -> str:
        """The unit that EXPLAIN shows with its costs; empty if it has none. ``s`` states that costs are seconds."""

    @property
    def static_is_free(self) -> bool:
        """Whether a fully static pattern costs nothing because it is pre-computed (Ψ of the report, rule 2)."""

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """The operators to consider for a join of this shape; none for a kind of join that the model cannot price."""

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Ψ of one relation that is read as a whole; ``filtered`` counts filter evaluations."""

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """Φ: from the rows of both inputs, the rows that the join produces, and the filter evaluations, each times its weight.

        Of PROBE, ``left`` counts the look-ups in one index: each row, times :attr:`RelationNode.indexes` of the relation.
        Of MULTIWAY, ``left`` counts the look-ups: each row in each relation, and each candidate in each relation but its own. ``right`` are
        the rows of the largest relation, and ``produced`` includes the candidates.
        """


def halvings(rows: Count) -> Count:
    """The steps of a binary search in a number of sorted rows: log2, and 0 for less than one row."""
    steps: Count = np.log2(np.maximum(rows, 1.0))
    return steps


LARGE_BUILD = 1 << 20
"""Rows of a bushy right side up to which the constant of a build holds."""

BEYOND = 1.5
"""What each doubling beyond them adds to the time of a row, as a share of that constant: new pages of memory, and cache misses."""


def build_factor(rows: Count) -> Count:
    """The time to build a row of a bushy right side with this number of rows, over that of a small one."""
    factor: Count = 1.0 + BEYOND * np.maximum(0.0, halvings(rows) - halvings(float(LARGE_BUILD)))
    return factor


@dataclass(frozen=True, slots=True)
class Constants:
    """Seconds per unit of work. The defaults are those of an ordinary core; a calibration of the machine replaces them.

    ``operator``: starting a join. ``scan``: reading a row. ``probe``: looking up a row, plus ``step`` for each halving of
    the index. ``produce``: writing a joined row. ``build``: adding a row of a bushy right side to a hash table, times
    :func:`build_factor`; ``match``: looking up a row there. ``evaluate``: one filter of weight 1 on one row. Spark as a whole: ``job``: a
    job of one task; ``stage``: one more stage of it, after a shuffle; ``shuffle``: a row through the shuffle; ``broadcast``: a row to all
    executors.
    """

    operator: float = 2e-5
    scan: float = 1e-8
    probe: float = 1e-8
    step: float = 4e-9
    produce: float = 6e-8
    build: float = 6e-8
    match: float = 5e-8
    evaluate: float = 1e-7
    job: float = 0.08
    stage: float = 0.1
    shuffle: float = 1e-6
    broadcast: float = 1e-6

    def look_up(self, rows: Count) -> Count:
        """Seconds of one index probe: looking up one row in an index with this number of rows."""
        seconds: Count = self.probe + self.step * halvings(rows)
        return seconds

    def shares(self, seconds: float, slots: int) -> int:
        """The number of tasks for work of these estimated seconds: all slots if that saves more than the stage it adds."""
        return slots if seconds * (1 - 1 / slots) > self.stage else 1


@dataclass(frozen=True, slots=True)
class JoinConstants:
    """Seconds per row of Spark's joins: ``build`` and ``match`` of a hash join, ``sort`` for each halving, ``convert`` between Python and
    Spark rows. ``miss``: a look-up in a part of an index that is not in memory. ``hop``: a Python stage on rows of Spark.
    """

    convert: float = 4e-7
    build: float = 3e-7
    match: float = 2e-7
    sort: float = 4e-8
    miss: float = 1e-4
    hop: float = 0.03
