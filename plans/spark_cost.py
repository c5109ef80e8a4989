"""What a join costs that Spark itself does: no index, so both sides are rows that are read, and moved to where they meet.

The model prices a broadcast of the smaller side, a shuffle-hash and a sort-merge join, and takes the cheapest: the operator is chosen
with the join order and not after it, since what is cheap to join in one way may be the wrong order in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from cqels_opt.plans.cost import Constants, JoinOperator, JoinShape, Rows
from cqels_opt.plans.optimizer import PlanChoice
from cqels_opt.plans.physical import JoinConstants, JoinMethod
from cqels_opt.plans.plan import Join, Plan, Probe, Scan

BROADCAST_ROWS = 1_000_000.0
"""More estimated rows than this are not broadcast: the driver has to hold them, and estimates err."""

HASHED_ROWS = 1_000_000.0
"""More estimated rows a partition than this are not put into a hash table."""

TASK = 0.004
"""Seconds of a task that has nothing to do: a shuffle has as many as it has partitions."""

WAYS = (JoinMethod.BROADCAST, JoinMethod.SHUFFLE_HASH, JoinMethod.SORT_MERGE)


@dataclass(frozen=True, slots=True)
class SparkCost:
    """Seconds of Spark's joins on so many task ``slots``, with shuffles of so many ``partitions``. ``broadcasts`` False: none."""

    constants: Constants = field(default_factory=Constants)
    joins: JoinConstants = field(default_factory=JoinConstants)
    slots: int = 1
    partitions: int = 1
    broadcasts: bool = True
    name: str = "spark"
    unit: str = "s"
    static_is_free: bool = False

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """A join builds or sorts what it reads, also a single relation: nothing is probed."""
        return (JoinOperator.HASH,) if shape.connected else (JoinOperator.LOOP,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Every row is read once."""
        return (rows * self.constants.scan + filtered * self.constants.evaluate) / self.slots

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """The cheapest way to join, and what it puts out."""
        after = (produced * self.constants.produce + filtered * self.constants.evaluate) / self.slots
        if operator is JoinOperator.LOOP:
            few, many = np.minimum(left, right), np.maximum(left, right)
            return after + self.constants.job + few * self.constants.broadcast + few * many * self.joins.match / self.slots
        found: Rows = np.minimum.reduce(self.ways(left, right))
        return after + found

    def ways(self, left: Rows, right: Rows) -> tuple[Rows, Rows, Rows]:
        """The seconds of each of :data:`WAYS`, without what the join puts out; infinite where it must not be."""
        c, j = self.constants, self.joins
        few, many = np.minimum(left, right), np.maximum(left, right)
        broadcast = c.job + few * (c.broadcast + j.build) + many * j.match / self.slots
        shuffled = c.stage + TASK * self.partitions / self.slots + (left + right) * c.shuffle / self.slots
        hashed = shuffled + (few * j.build + many * j.match) / self.slots
        sides = (np.maximum(side, 2.0) for side in (left, right))
        sorting = sum(side * np.log2(np.maximum(side / self.partitions, 2.0)) for side in sides)
        merged = shuffled + (sorting * j.sort + (left + right) * j.match) / self.slots
        return (
            np.where(few <= (BROADCAST_ROWS if self.broadcasts else -1.0), broadcast, np.inf),
            np.where(few <= HASHED_ROWS * self.partitions, hashed, np.inf),
            merged,
        )

    def way(self, left: float, right: float) -> JoinMethod:
        """The cheapest of :data:`WAYS` for sides of so many rows."""
        found = [float(seconds) for seconds in self.ways(np.float64(left), np.float64(right))]  # type: ignore[arg-type]
        return WAYS[found.index(min(found))]


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """What does one operator of a plan (None: it is a scan), and whether the rows so far are the smaller side of its join."""

    by: JoinMethod | None = None
    left_is_smaller: bool = False


def spark_methods(choice: PlanChoice, model: SparkCost, rows: Callable[[str], float]) -> tuple[MethodChoice, ...]:
    """What does each operator of a chosen plan, in their order. ``rows`` says what is known of a relation that a join reads."""

    def ways(plan: Plan, at: int) -> Iterator[MethodChoice]:
        """Those of a part whose operators begin at a place."""
        if isinstance(plan, Scan):
            yield MethodChoice()
            return
        before = list(ways(plan.input, at))
        yield from before
        left = choice.estimated[at + len(before) - 1]
        if isinstance(plan, Probe):
            right = rows(plan.relation)
        else:
            assert isinstance(plan, Join)
            built = list(ways(plan.build, at + len(before)))
            yield from built
            right = choice.estimated[at + len(before) + len(built) - 1]
        yield MethodChoice(model.way(left, right) if plan.on else JoinMethod.LOOP, left <= right)

    return tuple(ways(choice.plan, 0))
