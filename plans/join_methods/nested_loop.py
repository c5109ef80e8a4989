"""The cross product."""

from __future__ import annotations

from cqels_opt.plans.join_methods.method import JoinInputs, JoinMethod, PhysicalCostModel


class NestedLoop(JoinMethod):
    """Pairs every row with every row."""

    name = "nested loop"

    def applicable(self, join: JoinInputs) -> bool:
        """A join without a shared variable."""
        return join.operator == "cross"

    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """The rows that are produced; a bushy right side is needed as rows, without a hash table."""
        if join.relation is None:
            return prices.held(join.left, 0.0, join.produced)
        return prices.looped(join.left, join.produced)
