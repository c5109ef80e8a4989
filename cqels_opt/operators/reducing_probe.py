"""Probes of one relation. Rows that would multiply are looked up in later relations first (``semijoin_reduction.py``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import chain

from cqels_opt.operators.block_relations import BlockRelations
from cqels_opt.operators.executed_operators import Chunk, ExecutedOperator, Joined, Reduction
from cqels_opt.operators.interval_join import per_row
from cqels_opt.operators.multiway_join import in_order
from cqels_opt.operators.semijoin_reduction import GROWTH, LEAST, LOOK_UPS, Reduced, Sides, reduced
from cqels_opt.plans import Probe
from cqels_opt.plans.join_methods import REPLICATED
from cqels_opt.plans.join_tree import JoinTree, ProbedRelation, join_tree
from cqels_opt.plans.plan import relations


class ReducingProbe:
    """The right side of a join of rows that bind some variables with one relation, a unit or a filter of the block.

    ``indexes`` has the indexes of a relation. ``REDUCES``: rows are reduced; tests compare with what happens without.
    """

    REDUCES = True

    def __init__(
        self, join: BlockRelations, operator: ExecutedOperator, indexes: Callable[[str], Sides], bound: frozenset[str]
    ) -> None:
        self.join, self.operator, self._indexes, self._bound = join, operator, indexes, bound
        self.name = relations(operator.plan)[-1]
        self.on = sorted(bound & join.variables[self.name])
        later = self.REDUCES and operator.above is not None
        self._can_reduce = later and len(self.on) == 1 and self._probed(operator) is not None

    def joined(self, left: Chunk) -> Joined:
        """The joined rows."""
        reduction, rows, sides, on = left.reduction, left.rows, self._sides(self.name, left.reduction), self.on
        if reduction is not None or not self._can_reduce or len(rows) * len(sides) > LOOK_UPS:
            return reduction, self.join.joined(rows, self.name, on, sides, self.operator.limited)
        rows = in_order(rows, sides, on)
        matches = [side.matches(rows, on) for side in sides]
        multiplies = sum(found.total for found in matches) >= max(LEAST, GROWTH * self.operator.first.count)
        first = self.operator.input is self.operator.first and len(rows) >= LEAST
        found = None
        if (multiplies or first) and len(self._tree) > 1:
            found = reduced(rows, self._tree, self._indexes, per_row(matches, len(rows)), multiplies)
        if found is None:
            return None, chain.from_iterable(each.all_rows(self.operator.limit) for each in matches)
        self.operator.work.looked_up += found.looked_up
        reduction = Reduction(found.sides, self._factors(found, left.weight))
        if not found.sizes:
            return reduction, chain.from_iterable(each.all_rows(self.operator.limit) for each in matches)
        return reduction, self.join.joined(found.rows, self.name, on, self._sides(self.name, reduction), self.operator.limited)

    def _sides(self, name: str, reduction: Reduction | None) -> Sides:
        """The indexes of a relation, or those of its rows that a reduction has left."""
        found = None if reduction is None else reduction.sides.get(name)
        return self._indexes(name) if found is None else found

    @cached_property
    def _tree(self) -> JoinTree:
        """The join tree of the rows, and of the relations that the operator and those above it probe."""
        probed = [relation for operator in self.operator.upwards() if (relation := self._probed(operator)) is not None]
        return join_tree(self._bound, probed)

    def _probed(self, operator: ExecutedOperator) -> ProbedRelation | None:
        """The relation that an operator looks rows up in, in an index that this task has."""
        plan = operator.plan
        if not isinstance(plan, Probe) or not plan.on or self.join.is_unit(plan.relation) or operator.method != REPLICATED:
            return None
        return ProbedRelation(plan.relation, plan.on, self.join.variables[plan.relation])

    def _factors(self, found: Reduced, weight: float) -> dict[ExecutedOperator, float]:
        """For the operator and those above it, the rows without the reduction per row with it. Rows of operators for which no row is left
        are counted at once. Operators outside of the tree have the ratio of the operator below them.
        """
        known = {node.relation.name: sizes for node, sizes in zip(self._tree, found.sizes)}
        factors, of_all, left = dict[ExecutedOperator, float](), 1.0, 1.0
        for operator in self.operator.upwards() if known else ():
            if isinstance(operator.plan, Probe):
                of_all, left = known.get(operator.plan.relation, (of_all, left))
            if left:
                factors[operator] = of_all / left
            else:
                operator.spare(round(of_all * weight))
        return factors
