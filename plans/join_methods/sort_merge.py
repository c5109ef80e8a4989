"""Spark's sort-merge join."""

from __future__ import annotations

import numpy as np

from cqels_opt.plans.cost import Count, JoinConstants
from cqels_opt.plans.join_methods.method import JoinInputs, PhysicalCostModel
from cqels_opt.plans.join_methods.spark_join import SparkJoin, shuffle


class SortMerge(SparkJoin):
    """Partitions both sides by key, sorts each partition, and merges. It needs no side to fit into memory."""

    name = "sort merge"

    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """A shuffle and a sort of both sides, and the merge."""
        shuffled = shuffle(join.left, join.right, prices.constants, prices.tasks)
        work = self.work(join.left, join.right, prices.joins, prices.tasks, prices.tasks)
        return shuffled + work + join.produced * prices.constants.produce / prices.tasks

    def work(self, left: Count, right: Count, joins: JoinConstants, tasks: int, partitions: int) -> Count:
        """The seconds after the shuffle, without those of produced rows."""
        sorting = sum(rows * np.log2(np.maximum(rows / partitions, 2.0)) for rows in (left, right))
        seconds: Count = (sorting * joins.sort + (left + right) * joins.match) / tasks
        return seconds
