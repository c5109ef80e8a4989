"""Spark's broadcast join."""

from __future__ import annotations

from cqels_opt.plans.cost import Constants, Count, JoinConstants
from cqels_opt.plans.join_methods.method import JoinInputs, PhysicalCostModel
from cqels_opt.plans.join_methods.spark_join import SparkJoin


class Broadcast(SparkJoin):
    """Sends one side to all executors, which is a job of its own."""

    name = "broadcast"

    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """The right side is sent."""
        work = self.work(join.left, join.right, prices.constants, prices.joins, prices.tasks)
        return work + join.produced * prices.constants.produce / prices.tasks

    def work(self, streamed: Count, sent: Count, constants: Constants, joins: JoinConstants, tasks: int) -> Count:
        """The seconds without those of produced rows; ``streamed`` rows are looked up among those ``sent``."""
        seconds: Count = constants.job + sent * (constants.broadcast + joins.build) + streamed * joins.match / tasks
        return seconds
