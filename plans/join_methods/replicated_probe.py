"""The probe into an index that every task reads."""

from __future__ import annotations

from cqels_opt.plans.join_methods.method import JoinInputs, JoinMethod, PhysicalCostModel


class ReplicatedProbe(JoinMethod):
    """Looks rows up in an index of a relation, or in a bushy right side that every task has built. It moves no rows."""

    name = "replicated probe"

    def applicable(self, join: JoinInputs) -> bool:
        """Every join on variables."""
        return join.operator in ("probe", "hash")

    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """Index look-ups; a bushy right side is built once per task."""
        if join.relation is None:
            return prices.held(join.left, join.right, join.produced)
        return prices.probe(join.left, join.relation, join.produced)
