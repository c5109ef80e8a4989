"""How each join of a chosen plan is done: the physical operator that is cheapest for its rows, and for where these lie (DESIGN §8).

The join order is chosen first and the operators then (two-phase optimization, Hong & Stonebraker 1991). Rows lie either in a Python task,
where consecutive probes are one stage, or in Spark's own rows; moving them costs, and so does every shuffle. So the operators of a
plan are chosen together: for every part of it the cheapest way to have its rows in either place. A broadcast by Spark is priced but never
chosen: it is a job of its own, and the jobs of a batch are bounded. A replicated probe is the broadcast of an index that is there already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias

import numpy as np

from cqels_opt.plans.cost import Constants
from cqels_opt.plans.plan import Join, Plan, PlanOperator, Probe, Scan


class JoinMethod(StrEnum):
    """What does a join: our probe into an index that every task reads, or that is shared out by key; or one of Spark's joins."""

    REPLICATED = "replicated probe"
    PARTITIONED = "partitioned probe"
    SHUFFLE_HASH = "shuffle hash"
    SORT_MERGE = "sort merge"
    BROADCAST = "broadcast"
    LOOP = "nested loop"


SPARKS = (JoinMethod.SHUFFLE_HASH, JoinMethod.SORT_MERGE, JoinMethod.BROADCAST)
CHOSEN_FROM = (JoinMethod.REPLICATED, JoinMethod.PARTITIONED, JoinMethod.SHUFFLE_HASH, JoinMethod.SORT_MERGE)

GAIN = 0.1
"""The share of the cost of replicated probes alone that other operators must save: below it their estimates decide nothing."""

COLUMN = 16
"""Bytes of a column of a row of an index: the column, and the order of its rows."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What runs the tasks: task slots in all, executors, and the bytes of indexes that each of these can hold (None: all)."""

    slots: int = 1
    executors: int = 1
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class JoinConstants:
    """Seconds a row: ``convert`` between Python and Spark's rows; Spark's ``build`` and ``match`` of a hash join, and ``sort`` for every
    halving; ``miss``, a look-up in a part of an index that is not in memory. ``hop``: a stage in Python on rows that are Spark's.
    """

    convert: float = 4e-7
    build: float = 3e-7
    match: float = 2e-7
    sort: float = 4e-8
    miss: float = 1e-4
    hop: float = 0.03


@dataclass(frozen=True, slots=True)
class RelationPlacement:
    """The rows of a relation that is probed, and how many columns it has."""

    rows: float
    columns: int

    @property
    def bytes(self) -> float:
        """Of its columns, and of the order of its rows by each."""
        return COLUMN * (self.columns + 1) * self.rows


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """What does each operator of a plan, in their order (None: a scan, a filter or a unit), and the seconds of it all."""

    by: tuple[JoinMethod | None, ...]
    cost: float

    @property
    def fused(self) -> bool:
        """Whether all of it is one stage of replicated probes and loops."""
        return all(by in (None, JoinMethod.REPLICATED, JoinMethod.LOOP) for by in self.by)


Place: TypeAlias = Literal["ours", "spark"]
_Ways: TypeAlias = "dict[Place, PhysicalPlan]"


@dataclass(frozen=True, slots=True)
class PhysicalCostModel:
    """Prices the operators of one plan, done in so many tasks."""

    machine: Machine
    tasks: int
    constants: Constants = field(default_factory=Constants)
    joins: JoinConstants = field(default_factory=JoinConstants)
    relations: Mapping[str, RelationPlacement] = field(default_factory=dict)

    def rows(self, name: str) -> float:
        """The rows of a relation (a unit that nothing is known of has one)."""
        return self.relations[name].rows if name in self.relations else 1.0

    def missing(self, name: str, executors: int = 1) -> float:
        """The share of a relation's index that is not in the memory of so many executors together: smaller ones go first."""
        memory, own = self.machine.memory, self.relations[name].bytes if name in self.relations else 0.0
        if memory is None or not own:
            return 0.0
        before = sum(r.bytes for other, r in self.relations.items() if (r.bytes, other) < (own, name))
        return min(1.0, max(0.0, 1 - (executors * memory - before) / own))

    def probe(self, left: float, name: str, produced: float, executors: int = 1) -> float:
        """Index look-ups by tasks that share the left rows."""
        c = self.constants
        each = c.probe + c.step * float(np.log2(max(self.rows(name), 1.0))) + self.joins.miss * self.missing(name, executors)
        return c.operator + (left * each + produced * c.produce) / self.tasks

    def partitioned(self, left: float, name: str, produced: float) -> float:
        """The same after the left rows went to the tasks that own their keys."""
        shuffled = self.constants.stage + left * self.constants.shuffle / self.tasks
        return shuffled + self.probe(left, name, produced, self.machine.executors)

    def looped(self, left: float, produced: float) -> float:
        """All pairs, or a unit or filter, on rows that tasks share."""
        return self.constants.operator + (left * self.constants.probe + produced * self.constants.produce) / self.tasks

    def held(self, left: float, right: float, produced: float) -> float:
        """A right side that every task has built in memory for itself."""
        c = self.constants
        return c.operator + right * c.build + (left * c.match + produced * c.produce) / self.tasks

    def spark(self, by: JoinMethod, left: float, right: float, produced: float) -> float:
        """One of Spark's joins of rows that are Spark's."""
        c, j = self.constants, self.joins
        small, large = min(left, right), max(left, right)
        if by is JoinMethod.BROADCAST:
            return c.job + right * c.broadcast + right * j.build + (left * j.match + produced * c.produce) / self.tasks
        shuffled = c.stage + (left + right) * c.shuffle / self.tasks
        if by is JoinMethod.SHUFFLE_HASH:
            return shuffled + (small * j.build + large * j.match + produced * c.produce) / self.tasks
        sorting = sum(n * float(np.log2(max(n / self.tasks, 2.0))) for n in (left, right))
        return shuffled + (sorting * j.sort + (left + right) * j.match + produced * c.produce) / self.tasks

    def moved(self, rows: float) -> float:
        """Rows from Python to Spark, or back."""
        return rows * self.joins.convert / self.tasks


def physical(
    plan: Plan,
    steps: Sequence[PlanOperator],
    estimated: Sequence[float],
    prices: PhysicalCostModel,
    allowed: Sequence[JoinMethod] = CHOSEN_FROM,
) -> PhysicalPlan:
    """The cheapest operators for a plan, whose ``steps`` give ``estimated`` rows. Other ways than replicated probes must save :data:`GAIN`.

    With one way ``allowed``, all joins that can be done so are.
    """
    found = _Chooser(steps, estimated, prices, tuple(allowed)).best(plan, 0)
    best = _home(found, estimated[-1], prices)
    if JoinMethod.REPLICATED in allowed and len(allowed) > 1:
        plain = physical(plan, steps, estimated, prices, (JoinMethod.REPLICATED,))
        return best if best.cost < plain.cost * (1 - GAIN) else plain
    return best


def _home(ways: _Ways, rows: float, prices: PhysicalCostModel) -> PhysicalPlan:
    """The cheapest way to have the rows in Python, where the results are written."""
    found = [ways["ours"]] if "ours" in ways else []
    if "spark" in ways:
        there = ways["spark"]
        found.append(PhysicalPlan(there.by, there.cost + prices.joins.hop + prices.moved(rows)))
    return min(found, key=lambda way: way.cost)


class _Chooser:
    """Bottom-up over a plan; ``at`` is where the operators of a part begin among the steps."""

    def __init__(
        self,
        steps: Sequence[PlanOperator],
        estimated: Sequence[float],
        prices: PhysicalCostModel,
        allowed: tuple[JoinMethod, ...],
    ) -> None:
        self.steps, self.rows, self.prices, self.allowed = steps, estimated, prices, allowed

    def best(self, plan: Plan, at: int) -> _Ways:
        """For each place the cheapest way to have the rows of a part there."""
        if isinstance(plan, Scan):
            cost = self.rows[at] * self.prices.constants.scan / self.prices.tasks
            return {"ours": PhysicalPlan((None,), cost), "spark": PhysicalPlan((None,), cost + self.prices.moved(self.rows[at]))}
        left = self.best(plan.input, at)
        middle = at + size(plan.input)
        place = at + size(plan) - 1
        before, after = self.rows[middle - 1], self.rows[place]
        if isinstance(plan, Probe):
            right = self.prices.rows(plan.relation)
            return self._ways(plan, place, left, self._probed(right), before, right, after)
        return self._ways(plan, place, left, self.best(plan.build, middle), before, self.rows[place - 1], after, middle)

    def _probed(self, rows: float) -> _Ways:
        """A relation as the right side of one of Spark's joins."""
        return {"spark": PhysicalPlan((), rows * self.prices.constants.scan / self.prices.tasks + self.prices.moved(rows))}

    def _ways(
        self, plan: Probe | Join, place: int, left: _Ways, right: _Ways, before: float, rows: float, after: float, middle: int = 0
    ) -> _Ways:
        prices, found = self.prices, list[tuple[Place, PhysicalPlan]]()
        step = self.steps[place]
        inner = step.op in ("probe", "hash")  # a cross product is a loop, and a unit is done where its rows are, in Python
        ours = self._into(left, "ours", before)
        if isinstance(plan, Probe):
            by: JoinMethod | None = JoinMethod.REPLICATED if inner else JoinMethod.LOOP if step.op == "cross" else None
            cost = prices.probe(before, plan.relation, after) if inner else prices.looped(before, after)
            found.append(("ours", self._then(ours, by, cost)))
            if inner and JoinMethod.PARTITIONED in self.allowed:
                source = self._into(left, "spark", before)
                found.append(
                    ("ours", self._then(source, JoinMethod.PARTITIONED, prices.partitioned(before, plan.relation, after)))
                )
        else:
            alone = self._alone(plan.build, middle)
            both = PhysicalPlan((*ours.by, *alone.by), ours.cost + alone.cost)
            held = prices.held(before, rows if inner else 0.0, after)
            found.append(("ours", self._then(both, JoinMethod.REPLICATED if inner else JoinMethod.LOOP, held)))
        for spark in (by for by in SPARKS if inner and by in self.allowed):
            one, other = self._into(left, "spark", before), self._into(right, "spark", rows)
            both = PhysicalPlan((*one.by, *other.by), one.cost + other.cost)
            found.append(("spark", self._then(both, spark, prices.spark(spark, before, rows, after))))
        if JoinMethod.REPLICATED not in self.allowed:  # one way alone: where it can be done, it is
            found = [way for way in found if way[1].by[-1] in self.allowed] or found
        return {
            where: min((way for there, way in found if there == where), key=lambda way: way.cost)
            for where in dict.fromkeys(there for there, _ in found)
        }

    def _into(self, ways: _Ways, place: Place, rows: float) -> PhysicalPlan:
        """The rows of a part in a place, moved there where that is cheaper."""
        other: Place = "spark" if place == "ours" else "ours"
        found = [ways[place]] if place in ways else []
        if other in ways:
            cost = ways[other].cost + self.prices.moved(rows) + (self.prices.joins.hop if place == "ours" else 0.0)
            found.append(PhysicalPlan(ways[other].by, cost))
        return min(found, key=lambda way: way.cost)

    def _then(self, way: PhysicalPlan, by: JoinMethod | None, cost: float) -> PhysicalPlan:
        return PhysicalPlan((*way.by, by), way.cost + cost)

    def _alone(self, build: Plan, at: int) -> PhysicalPlan:
        """A bushy part that every task makes for itself."""
        return _Chooser(self.steps, self.rows, replace(self.prices, tasks=1), (JoinMethod.REPLICATED,)).best(build, at)["ours"]


def size(plan: Plan) -> int:
    """How many operators a plan has."""
    return 1 if isinstance(plan, Scan) else 1 + size(plan.input) + (size(plan.build) if isinstance(plan, Join) else 0)
