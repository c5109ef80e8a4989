"""The probe into an index that the tasks share out by key."""

from __future__ import annotations

from cqels_opt.plans.join_methods.method import JoinInputs, JoinMethod, PhysicalCostModel


class PartitionedProbe(JoinMethod):
    """Sends the left rows to the tasks that own their keys, and looks them up there. For indexes too large for one executor."""

    name = "partitioned probe"
    takes = "spark"

    def applicable(self, join: JoinInputs) -> bool:
        """A join with a relation, which has an index."""
        return join.operator == "probe"

    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """A shuffle of the left rows, then look-ups in memory that all executors have together."""
        assert join.relation is not None
        shuffled = prices.constants.stage + join.left * prices.constants.shuffle / prices.tasks
        return shuffled + prices.probe(join.left, join.relation, join.produced, prices.machine.executors)
