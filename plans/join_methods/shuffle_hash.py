"""Spark's shuffle-hash join."""

from __future__ import annotations

import numpy as np

from cqels_opt.plans.cost import Count, JoinConstants
from cqels_opt.plans.join_methods.method import JoinInputs, PhysicalCostModel
from cqels_opt.plans.join_methods.spark_join import SparkJoin, shuffle


class ShuffleHash(SparkJoin):
    """Partitions both sides by key and builds a hash table of the smaller side of each partition."""

    name = "shuffle hash"

    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """A shuffle of both sides, the hash tables, and the look-ups."""
        shuffled = shuffle(join.left, join.right, prices.constants, prices.tasks)
        work = self.work(join.left, join.right, prices.joins, prices.tasks)
        return shuffled + work + join.produced * prices.constants.produce / prices.tasks

    def work(self, left: Count, right: Count, joins: JoinConstants, tasks: int) -> Count:
        """The seconds after the shuffle, without those of produced rows."""
        small, large = np.minimum(left, right), np.maximum(left, right)
        seconds: Count = (small * joins.build + large * joins.match) / tasks
        return seconds
