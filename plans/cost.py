"""What a join costs: the functions Φ of the report (§5), and the project's own model in seconds.

A cost model is vectorised: it is given arrays of row counts, one entry an alternative, and returns an array. ``Ψ`` of a
pattern is then the least sum of Φ over its joins, plus what reading its leaves costs (``memo.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.query_graph import JoinKind

Rows: TypeAlias = "NDArray[np.float64]"
Shuffled: TypeAlias = Literal["nothing", "left", "both"]
"""Which sides of a join on variables go through a shuffle first."""


class JoinOperator(IntEnum):
    """How a join is done.

    PROBE reads its right side through an index and never scans it: one relation, or a static pattern that a model holds to
    be pre-computed. HASH builds its right side first. LOOP pairs every row with every row. OPTIONAL, ANTI and SEMI look a
    row up as PROBE does; FILTER looks at the row alone.
    """

    PROBE = 0
    HASH = 1
    LOOP = 2
    OPTIONAL = 3
    ANTI = 4
    SEMI = 5
    FILTER = 6

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class JoinShape:
    """What decides which operators can do a join: a variable in common, one relation on the right, a static right side; its kind."""

    connected: bool
    single: bool
    static: bool
    kind: JoinKind = "inner"


class CostModel(Protocol):
    """Prices operators. All arguments of :meth:`join` and :meth:`scan` are row counts."""

    @property
    def name(self) -> str:
        """What ``cost_model=`` calls it."""

    @property
    def unit(self) -> str:
        """The unit of its costs for people, empty where it has none."""

    @property
    def static_is_free(self) -> bool:
        """Whether a fully static pattern costs nothing because it is pre-computed (Ψ of the report, rule 2)."""

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """The implementations of a join of this shape that are considered; none of a kind that the model cannot price."""

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Ψ of one relation that is read from its beginning; ``filtered`` is filter evaluations."""

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """Φ: the rows of both inputs, the rows that the join produces, and the filter evaluations, each by its weight."""


@dataclass(frozen=True, slots=True)
class PaperCost:
    """The report's Φ (§5): card·card for a nested loop, card·log2 card for an index join. No unit.

    An index exists on a single relation and on a static pattern, which the report pre-computes and indexes (§4.2).
    """

    name: str = "paper"
    unit: str = ""
    static_is_free: bool = True

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """An index join where there is an index, and always a nested loop. Filters have no price, so they are no operators."""
        if shape.kind != "inner":
            return () if shape.kind == "filter" else (JoinOperator[shape.kind.upper()],)
        if shape.connected and (shape.single or shape.static):
            return (JoinOperator.PROBE, JoinOperator.LOOP)
        return (JoinOperator.LOOP,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Nothing: Ψ of a triple pattern is 0 (rules 2 and 3)."""
        return np.zeros_like(rows)

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """As the report has it; what the join produces counts only as the input of the next one."""
        if operator not in (JoinOperator.HASH, JoinOperator.LOOP):
            return left * np.log2(np.maximum(right, 1.0))
        return left * right


@dataclass(frozen=True, slots=True)
class Constants:
    """Seconds that one unit of work takes. Defaults of an ordinary core; a calibration of the machine replaces them.

    ``operator``: starting a join. ``scan``: reading a row. ``probe``: looking one row up, plus ``step`` for every halving of
    the index. ``produce``: writing a joined row. ``build``: putting a row of a bushy right side into a hash table;
    ``match``: looking one row up there. ``evaluate``: one filter of weight 1 on one row. Of Spark, as a whole: ``job``: a job of
    one task; ``stage``: one more stage of it, behind a shuffle; ``shuffle``: a row through that; ``broadcast``: a row to all
    executors.
    """

    operator: float = 2e-5
    scan: float = 1e-8
    probe: float = 1e-7
    step: float = 1e-8
    produce: float = 6e-8
    build: float = 1.5e-7
    match: float = 1.5e-7
    evaluate: float = 1e-7
    job: float = 0.08
    stage: float = 0.1
    shuffle: float = 1e-6
    broadcast: float = 1e-6

    def shares(self, seconds: float, slots: int) -> int:
        """In how many tasks work of so many estimated seconds is done: in all, where that saves more than the stage it adds."""
        return slots if seconds * (1 - 1 / slots) > self.stage else 1


@dataclass(frozen=True, slots=True)
class SecondsCost:
    """The default model: seconds, from rows read, probed, built, produced, filtered, and ``shuffled`` to where they are joined."""

    constants: Constants = field(default_factory=Constants)
    shuffled: Shuffled = "nothing"
    name: str = "default"
    unit: str = "s"
    static_is_free: bool = False

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """An index probe into one relation, a hash join with a bushy right side, a loop for a cross product."""
        if shape.kind != "inner":
            return (JoinOperator[shape.kind.upper()],)
        if not shape.connected:
            return (JoinOperator.LOOP,)
        return (JoinOperator.PROBE,) if shape.single else (JoinOperator.HASH,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Every row is read once, and the relation's own filters are evaluated."""
        return rows * self.constants.scan + filtered * self.constants.evaluate

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """The work of one join; that of its inputs is theirs."""
        c = self.constants
        if operator is JoinOperator.FILTER:
            return filtered * c.evaluate
        after = c.operator + produced * c.produce + filtered * c.evaluate
        if operator is JoinOperator.LOOP:
            return after
        if self.shuffled != "nothing":
            after = after + c.shuffle * (left + right if self.shuffled == "both" or operator is JoinOperator.HASH else left)
        if operator is JoinOperator.HASH:
            return after + right * c.build + left * c.match
        return after + left * (c.probe + c.step * np.log2(np.maximum(right, 1.0)))


def model_named(name: str | CostModel, constants: Constants | None = None) -> CostModel:
    """The cost model of this name: ``default`` (seconds) or ``paper``; a model is returned as it is."""
    if not isinstance(name, str):
        return name
    if name == "paper":
        return PaperCost()
    if name == "default":
        return SecondsCost(constants or Constants())
    raise ValueError(f"there is no cost model {name!r}; choose 'default' or 'paper'")
