"""The cost of joins that Spark itself executes: no index exists, so both sides are read and moved to where they meet.

The model prices a broadcast of the smaller side and a sort-merge join, which are what Spark chooses between by default, and takes the
cheaper one. The method is chosen together with the join order, because the cheapest order depends on the methods that it allows. A side
may be broadcast up to the bytes that Spark itself would broadcast (``spark.sql.autoBroadcastJoinThreshold``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cqels_opt.plans.cost import Constants, JoinConstants, JoinOperator, JoinShape, Rows
from cqels_opt.plans.join_methods import BROADCAST, SORT_MERGE, JoinMethod
from cqels_opt.plans.join_methods.spark_join import shuffle

BROADCAST_ROWS = 100_000.0
"""The most estimated rows that are broadcast, unless their bytes are known."""

TASK = 0.004
"""Seconds of a task without rows: a shuffle has one task per partition."""

SPARK_METHODS = (BROADCAST, SORT_MERGE)


@dataclass(frozen=True, slots=True)
class SparkCost:
    """Seconds of Spark's joins on ``slots`` task slots, with shuffles of ``partitions`` partitions, and broadcasts of at most
    ``broadcast_rows`` rows."""

    constants: Constants = field(default_factory=Constants)
    joins: JoinConstants = field(default_factory=JoinConstants)
    slots: int = 1
    partitions: int = 1
    broadcast_rows: float = BROADCAST_ROWS
    name: str = "spark"
    unit: str = "s"
    static_is_free: bool = False

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """A join builds or sorts what it reads, even a single relation: there are no index probes."""
        return (JoinOperator.HASH,) if shape.connected else (JoinOperator.LOOP,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Every row is read once."""
        return (rows * self.constants.scan + filtered * self.constants.evaluate) / self.slots

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """The cheapest method, and the rows that the join produces."""
        after = (produced * self.constants.produce + filtered * self.constants.evaluate) / self.slots
        if operator is JoinOperator.LOOP:
            few, many = np.minimum(left, right), np.maximum(left, right)
            return after + self.constants.job + few * self.constants.broadcast + few * many * self.joins.match / self.slots
        found: Rows = np.minimum.reduce(self.method_costs(left, right))
        return after + found

    def method_costs(self, left: Rows, right: Rows) -> tuple[Rows, Rows]:
        """The seconds of each of :data:`SPARK_METHODS`, without those of produced rows; infinite if the method must not be used."""
        c, j = self.constants, self.joins
        few = np.minimum(left, right)
        shuffled = shuffle(left, right, c, self.slots, TASK * self.partitions / self.slots)
        broadcast = BROADCAST.work(np.maximum(left, right), few, c, j, self.slots)
        return (
            np.where(few <= self.broadcast_rows, broadcast, np.inf),
            shuffled + SORT_MERGE.work(left, right, j, self.slots, self.partitions),
        )

    def broadcast_seconds(self, rows: float, joined: bool) -> float:
        """The seconds until a side has been broadcast. ``joined`` rows of other relations wait for the broadcasts of their own joins.

        Broadcasts of single relations run at the same time, so they do not wait.
        """
        return rows * self.constants.broadcast + joined * self.constants.job if rows <= self.broadcast_rows else np.inf

    def method(self, left: float, right: float) -> JoinMethod:
        """The cheapest of :data:`SPARK_METHODS` for sides with these numbers of rows."""
        found = [float(seconds) for seconds in self.method_costs(np.float64(left), np.float64(right))]  # type: ignore[arg-type]
        return SPARK_METHODS[found.index(min(found))]
