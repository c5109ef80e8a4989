"""The physical join method of each join of a chosen plan: the cheapest for its rows, and for where these lie (DESIGN §8).

The join order is chosen first and the methods second (two-phase optimization, Hong & Stonebraker 1991). Rows lie in a Python task or in
Spark, and moving them costs time, so the methods of a plan are chosen together: for every part of the plan, the cheapest way to have its
rows in either place (an interesting property, as the sort orders of Selinger et al. 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cqels_opt.plans.cost_models.spark import SparkCost
from cqels_opt.plans.join_methods import BROADCAST, CHOSEN_FROM, LOOP, REPLICATED, JoinInputs, JoinMethod, PhysicalCostModel
from cqels_opt.plans.join_methods.method import Place
from cqels_opt.plans.plan import Join, Multiway, Plan, PlanOperator, Probe, Scan, right_relations
from cqels_opt.plans.plan_choice import PlanChoice

GAIN = 0.1
"""The share of the cost of replicated probes that other methods must save; their estimates are not exact enough for less."""


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """The method of each operator of a plan, in their order (None: a scan, a filter, a unit or a multiway join), and the seconds of the
    whole plan."""

    by: tuple[JoinMethod | None, ...]
    cost: float

    @property
    def fused(self) -> bool:
        """Whether the whole plan is one stage of replicated probes and loops."""
        return all(by in (None, REPLICATED, LOOP) for by in self.by)


_Placed: TypeAlias = "dict[Place, PhysicalPlan]"
"""For each place the cheapest plan that leaves its rows there."""


def physical(
    plan: Plan,
    steps: Sequence[PlanOperator],
    estimated: Sequence[float],
    prices: PhysicalCostModel,
    allowed: Sequence[JoinMethod] = CHOSEN_FROM,
) -> PhysicalPlan:
    """The cheapest methods for a plan, whose ``steps`` produce ``estimated`` rows. Other methods than replicated probes must save
    :data:`GAIN`. If one method alone is ``allowed``, it does all joins that it can do.
    """
    found = _MethodSearch(steps, estimated, prices, tuple(allowed)).best(plan, 0)
    best = _in_python(found, estimated[-1], prices)
    if REPLICATED in allowed and len(allowed) > 1:
        plain = physical(plan, steps, estimated, prices, (REPLICATED,))
        return best if best.cost < plain.cost * (1 - GAIN) else plain
    return best


def _in_python(placed: _Placed, rows: float, prices: PhysicalCostModel) -> PhysicalPlan:
    """The cheapest plan that has its rows in Python, where the results are written."""
    found = [placed["python"]] if "python" in placed else []
    if "spark" in placed:
        there = placed["spark"]
        found.append(PhysicalPlan(there.by, there.cost + prices.joins.hop + prices.moved(rows)))
    return min(found, key=lambda way: way.cost)


class _MethodSearch:
    """Bottom-up over a plan. ``at`` is the number of the first operator of a part among the steps."""

    def __init__(
        self,
        steps: Sequence[PlanOperator],
        estimated: Sequence[float],
        prices: PhysicalCostModel,
        allowed: tuple[JoinMethod, ...],
    ) -> None:
        self.steps, self.rows, self.prices, self.allowed = steps, estimated, prices, allowed
        self.methods = tuple(dict.fromkeys((REPLICATED, LOOP, *allowed)))

    def best(self, plan: Plan, at: int) -> _Placed:
        """For each place the cheapest way to have the rows of a part there."""
        if isinstance(plan, Scan):
            cost = self.rows[at] * self.prices.constants.scan / self.prices.tasks
            in_spark = cost + self.prices.moved(self.rows[at])
            return {"python": PhysicalPlan((None,), cost), "spark": PhysicalPlan((None,), in_spark)}
        left = self.best(plan.input, at)
        middle, last = at + size(plan.input), at + size(plan) - 1
        if isinstance(plan, Multiway):
            one, cost = (
                self._moved(left, "python", self.rows[middle - 1]),
                self._probed(plan, self.rows[middle - 1], self.rows[last]),
            )
            return {"python": PhysicalPlan((*one.by, None), one.cost + cost)}
        relation = plan.relation if isinstance(plan, Probe) else None
        right_rows = self.rows[last - 1] if relation is None else self.prices.rows(relation)
        join = JoinInputs(self.steps[last].op, relation, self.rows[middle - 1], right_rows, self.rows[last])
        if isinstance(plan, Join):
            return self._cheapest(join, left, self.best(plan.build, middle), self._built(plan.build, middle))
        return self._cheapest(join, left, {"spark": self._read_by_spark(right_rows)}, PhysicalPlan((), 0.0))

    def _probed(self, plan: Multiway, left: float, produced: float) -> float:
        """A multiway join: each task probes the indexes of its relations."""
        return max(self.prices.probe(left, name, produced) for name in plan.relations)

    def _read_by_spark(self, rows: float) -> PhysicalPlan:
        """A relation as the right side of one of Spark's joins."""
        return PhysicalPlan((), rows * self.prices.constants.scan / self.prices.tasks + self.prices.moved(rows))

    def _built(self, build: Plan, at: int) -> PhysicalPlan:
        """A bushy part that every task builds for itself."""
        methods = tuple(method for method in self.allowed if method.in_task) or (REPLICATED,)
        return _MethodSearch(self.steps, self.rows, replace(self.prices, tasks=1), methods).best(build, at)["python"]

    def _cheapest(self, join: JoinInputs, left: _Placed, right: _Placed, index: PhysicalPlan) -> _Placed:
        """The cheapest applicable method for each place of the joined rows; ``index`` is the right side in Python, ready to be probed.

        A unit runs in Python and has no method.
        """
        found = list[tuple[Place, PhysicalPlan]]()
        for method in self.methods:
            if method.applicable(join):
                one = self._moved(left, method.takes, join.left)
                other = self._moved(right, "spark", join.right) if method.gives == "spark" else index
                cost = one.cost + other.cost + float(method.cost(join, self.prices))
                found.append((method.gives, PhysicalPlan((*one.by, *other.by, method), cost)))
        if not found:
            one = self._moved(left, "python", join.left)
            found = [("python", PhysicalPlan((*one.by, None), one.cost + self.prices.looped(join.left, join.produced)))]
        if REPLICATED not in self.allowed:
            found = [way for way in found if way[1].by[-1] in self.allowed] or found
        return {
            place: min((way for there, way in found if there == place), key=lambda way: way.cost)
            for place in dict.fromkeys(there for there, _ in found)
        }

    def _moved(self, placed: _Placed, place: Place, rows: float) -> PhysicalPlan:
        """The rows of a part in a place, moved there if that is cheaper."""
        other: Place = "spark" if place == "python" else "python"
        found = [placed[place]] if place in placed else []
        if other in placed:
            cost = placed[other].cost + self.prices.moved(rows) + (self.prices.joins.hop if place == "python" else 0.0)
            found.append(PhysicalPlan(placed[other].by, cost))
        return min(found, key=lambda way: way.cost)


def size(plan: Plan) -> int:
    """The number of operators of a plan."""
    return 1 if isinstance(plan, Scan) else 1 + size(plan.input) + (size(plan.build) if isinstance(plan, Join) else 0)


# ------------------------------------------------------------------ plans that Spark alone executes
@dataclass(frozen=True, slots=True)
class MethodChoice:
    """The method of one operator of a plan (None: it is a scan), and whether a broadcast is of the left side of its join."""

    by: JoinMethod | None = None
    broadcasts_left: bool = False


def spark_methods(choice: PlanChoice, model: SparkCost, rows: Callable[[str], float]) -> tuple[MethodChoice, ...]:
    """The method of each operator of a plan that Spark executes, in their order. ``rows`` gives the rows of a relation that is joined."""

    def methods(plan: Plan, at: int) -> Iterator[MethodChoice]:
        """Those of a part whose first operator has the number ``at``."""
        if isinstance(plan, Scan):
            yield MethodChoice()
            return
        yield from methods(plan.input, at)
        middle = at + size(plan.input)
        right_is_joined = isinstance(plan, Join) and not isinstance(plan.build, Scan)
        if isinstance(plan, Join):
            yield from methods(plan.build, middle)
            right = choice.estimated[middle + size(plan.build) - 1]
        else:
            right = max(map(rows, right_relations(plan)))
        left, left_is_joined = choice.estimated[middle - 1], not isinstance(plan.input, Scan)
        left_costs_less = model.broadcast_seconds(left, left_is_joined) <= model.broadcast_seconds(right, right_is_joined)
        method = model.method(left, right) if plan.on else LOOP
        yield MethodChoice(method, method == BROADCAST and left_costs_less)

    return tuple(methods(choice.plan, 0))
