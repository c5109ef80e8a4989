"""The optimizer of an adaptive join: statistics of its windows, a plan for the new rows of each, and the trace entries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np

from cqels_opt.planner.statistics_adapters import BeforeElements
from cqels_opt.plans import DeltaRule, Optimizer, Plan, PlanChoice, QueryGraph, Statistics
from cqels_opt.plans import explain as explaining
from cqels_opt.plans import explain_text as explaining_text
from cqels_opt.plans.cost_models.spark import SparkCost
from cqels_opt.plans.explain import Format
from cqels_opt.plans.join_methods import BROADCAST, LOOP, SORT_MERGE
from cqels_opt.plans.measured import with_runner_up
from cqels_opt.plans.physical import MethodChoice, size, spark_methods
from cqels_opt.plans.plan import Join, Scan, relations, right_relations, written_order
from cqels_opt.relational.counting import Counted
from cqels_opt.relational.fanouts import KeyCounts
from cqels_opt.stats import BlockStatistics, StaticRelation, WindowedRelation, load, save, summary
from cqels_opt.stats.frequencies import Fanout, Ints
from cqels_opt.stats.slot_statistics import Intervals
from cqels_opt.trace.records import Delta, Moved, OperatorRecord, RunnerUp

Side: TypeAlias = Literal["left", "right"]
"""A side of a join."""
StaticCounts: TypeAlias = Mapping[str, KeyCounts]
"""The key counts of a static relation, by variable."""


@dataclass(frozen=True, slots=True)
class JoinLayout:
    """What the planner needs of a join: its query graph, the width of each relation over the stream in milliseconds, and the join keys
    of each relation, as variables."""

    graph: QueryGraph
    windows: Mapping[str, int]
    keys: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Counts:
    """A static relation: its number of rows, its key counts by variable, and the mean bytes of a row, if they were measured."""

    rows: int
    keys: StaticCounts
    width: float | None = None


@dataclass(frozen=True, slots=True)
class JoinDecision:
    """The plan of one relation's new rows, and the join method of each operator."""

    choice: PlanChoice
    methods: tuple[MethodChoice, ...]

    @property
    def broadcasts(self) -> bool:
        """Whether one side of a join is broadcast."""
        return any(method.by == BROADCAST for method in self.methods)


@dataclass(frozen=True, slots=True)
class OrderCosts:
    """Seconds of the chosen join order, of that of the query, and of the most expensive one."""

    chosen: float
    written: float
    greatest: float

    @property
    def spread(self) -> float:
        """How many times the chosen order the most expensive one costs."""
        return self.greatest / self.chosen if self.chosen > 0 else 1.0


@dataclass(slots=True)
class ObservedJoin:
    """The output rows of each operator per relation, and the input and output rows of filters."""

    operators: dict[str, list[int]] = field(default_factory=dict)
    filters: list[tuple[str, int, int]] = field(default_factory=list)


class JoinPlanner:
    """Statistics and optimizer of a join. ``statics`` has the counts of all relations that are not over the stream, ``widths`` the bytes
    per row of relations, as far as they are known.

    Per batch, call :meth:`advance`, :meth:`choose`, and :meth:`observe` with the observed rows.
    """

    def __init__(
        self, layout: JoinLayout, statics: Mapping[str, Counts], model: SparkCost, mode: str | Mapping[str, Plan] = "adaptive"
    ) -> None:
        self.layout, self.statics, self.model = layout, dict(statics), model
        self.sources = list(layout.windows)
        streams = [WindowedRelation(name, layout.keys[name], _intervals(width)) for name, width in layout.windows.items()]
        self.statistics = BlockStatistics(
            [*streams, *(self._static(name) for name in statics)],
            filters=tuple(condition.name for condition in layout.graph.filters),
            static_joins=self._static_joins(),
        )
        self.optimizer = Optimizer(layout.graph, self.sources, model, mode, feedback=True)
        self.rule = DeltaRule(tuple(sorted(self.sources, key=lambda name: -layout.windows[name])))
        self.widths: dict[str, float] = {}
        self.decisions: dict[str, JoinDecision] = {}
        self.observed = ObservedJoin()
        self.switches = 0

    def replace(self, name: str, counts: Counts) -> None:
        """Replaces the counts of a static relation by those of a new version."""
        self.statics[name] = counts
        self.statistics.replace(self._static(name), self._static_joins())

    # ------------------------------------------------------------------ a batch
    def advance(self, counted: Counted, before: int, frontier: int) -> None:
        """Adds a micro-batch's counts and removes what had expired at ``before``."""
        self.statistics.advance(counted.slots, before, frontier)

    def choose(self) -> dict[str, JoinDecision]:
        """Chooses the plans for this batch."""
        self.rule = self.rule.adjusted({name: float(self.statistics.windows[name].card("old")) for name in self.sources})
        statistics = self._source_statistics()
        choices = self.optimizer.choose(statistics)
        self.switches += sum(choice.switched for choice in choices.values())
        self.observed = ObservedJoin()
        return self._decide(choices, statistics, self.model)

    def as_written(self) -> dict[str, JoinDecision]:
        """The joins in the order of the query, without broadcasts: what runs if the chosen plans fail."""
        model = replace(self.model, broadcast_rows=-1.0)
        statistics = self._source_statistics()
        choices = Optimizer(self.layout.graph, self.sources, model, "first").choose(statistics)
        return self._decide(choices, statistics, model)

    def _decide(
        self, choices: Mapping[str, PlanChoice], statistics: Mapping[str, Statistics], model: SparkCost
    ) -> dict[str, JoinDecision]:
        """Takes plans as the decisions of this batch, with the join methods of each."""
        self.decisions = {
            source: JoinDecision(choice, spark_methods(choice, model, self._rows_in(statistics[source])))
            for source, choice in choices.items()
        }
        return self.decisions

    def alternatives(self, source: str, broadcast_bytes: float) -> OrderCosts:
        """The costs of the join orders of a relation's new rows, under the statistics of the last choice.

        In the order of the query Spark broadcasts relations of few bytes only: it does not know the size of a micro-batch.
        """
        chosen, greatest = self.decisions[source].choice.cost, self.optimizer.greatest_cost(source)
        plan = written_order(self.layout.graph, source)
        priced = self.optimizer.price_of(source, plan)
        if priced is None:
            return OrderCosts(chosen, float("inf"), greatest)
        written, estimated = priced
        rows = self._rows_in(self._source_statistics()[source])
        for name, left in zip(relations(plan)[1:], estimated):
            right = rows(name)
            broadcast, sorted_ = map(float, self.model.method_costs(np.float64(left), np.float64(right)))  # type: ignore[arg-type]
            if right * self.widths[name] > broadcast_bytes:
                written += sorted_ - min(broadcast, sorted_)
        return OrderCosts(chosen, written, greatest)

    def side_bytes(self, source: str) -> list[tuple[float, float]]:
        """The estimated bytes of both sides of each operator of a plan; of a scan: twice its own."""
        choice = self.decisions[source].choice
        return list(_side_bytes(choice, choice.plan, 0, self._rows_in(self._source_statistics()[source]), self.widths))

    def broadcast_below(self, source: str, most: float) -> list[Side | None]:
        """The side of each join of a plan that is broadcast: the one with fewer bytes, if it has at most ``most``; never the left side
        of an outer, semi or anti join. The join methods of the plan are set accordingly.
        """
        choice, methods = self.decisions[source].choice, list(self.decisions[source].methods)
        found: list[Side | None] = [None] * len(methods)
        for place, (step, (left, right)) in enumerate(zip(choice.operators, self.side_bytes(source), strict=True)):
            if (method := methods[place].by) is None:
                continue
            smaller: Side = "left" if left < right else "right"
            if min(left, right) <= most and (smaller == "right" or step.op in ("probe", "hash", "cross")):
                found[place] = smaller
            if method != LOOP:
                methods[place] = MethodChoice(BROADCAST if found[place] else SORT_MERGE, smaller == "left")
        self.decisions[source] = JoinDecision(choice, tuple(methods))
        return found

    def observe(self, observed: ObservedJoin, chosen: bool = True) -> None:
        """Records the observed rows; ``chosen``: they are those of the chosen plans, so that they correct later estimates."""
        self.observed = observed
        if not chosen:
            return
        for name, before, after in observed.filters:
            self.statistics.observe(name, before, after)
        for source, rows in observed.operators.items():
            self.optimizer.observe(source, rows)

    # ------------------------------------------------------------------ reports
    @property
    def fallback(self) -> str | None:
        """Why the optimizer used a greedy order; None if it did not."""
        return "more join pairs than the budget; greedy order" if self.optimizer.fallback else None

    def plans(self) -> dict[str, str]:
        """The current plan of each relation's new rows."""
        return {source: str(decision.choice.plan) for source, decision in self.decisions.items()}

    def summary(self) -> dict[str, Any]:
        """The current statistics."""
        return dict(summary(self.statistics))

    def deltas(self) -> tuple[Delta, ...]:
        """The trace entries of the plans."""
        return tuple(self._delta(source, decision) for source, decision in self.decisions.items())

    def _delta(self, source: str, decision: JoinDecision) -> Delta:
        choice, counts = decision.choice, self.observed.operators.get(source)
        operators = tuple(
            OperatorRecord(
                step.op, step.relation, step.on, rows, counts[i] if counts else None, str(method.by) if method.by else None
            )
            for i, (step, rows, method) in enumerate(zip(choice.operators, choice.estimated, decision.methods, strict=True))
        )
        other = choice.runner_up
        runner_up = RunnerUp(str(other.plan), other.cost) if other else None
        reason = tuple(Moved(r.statistic, r.was, r.now) for r in choice.reason)
        return Delta(source, str(choice.plan), choice.cost, runner_up, choice.switched, reason, operators)

    def explain(self, format: Format = "text", alternatives: int = 0, analyze: bool = False) -> str:
        """The plans of the last choice, with the estimated and the observed rows of their operators.

        ``analyze`` adds what the runner-up would have cost with the observed rows.
        """
        choices = {source: decision.choice for source, decision in self.decisions.items()}
        if format == "dot":
            return explaining.dot(choices)
        retained = {s: self.optimizer.alternatives(s, alternatives) for s in choices} if alternatives else None
        validity_ranges = {source: self.optimizer.validity(source) for source in choices}
        described = explaining.deltas(choices, self.observed.operators, retained, validity_ranges)
        for delta in described:
            source = delta["source"]
            if analyze:
                with_runner_up(delta, choices[source], self.optimizer.observed_price_of)
            sides = self.side_bytes(source) if self.layout.keys.keys() <= self.widths.keys() else [None] * len(delta["operators"])
            for operator, method, nbytes in zip(delta["operators"], self.decisions[source].methods, sides, strict=True):
                if method.by is not None:
                    operator |= {"by": str(method.by)} | ({"side_bytes": list(nbytes)} if nbytes else {})
                    operator |= {"build": "left" if method.broadcasts_left else "right"} if method.by == BROADCAST else {}
        if format == "json":
            return json.dumps({"deltas": described}, indent=2, ensure_ascii=False)
        return explaining_text.text(described, self.model, self.statistics.epoch)

    # ------------------------------------------------------------------ a restart
    def state(self) -> tuple[dict[str, Any], bytes]:
        """The state for a restart: the optimizer's as JSON, and the statistics."""
        found = {"optimizer": self.optimizer.state(), "order": self.rule.order, "switches": self.switches}
        return found, save(self.statistics)

    def resume(self, state: Mapping[str, Any], statistics: bytes) -> None:
        """Restores the state. ValueError if it belongs to another join."""
        load(statistics, self.statistics)
        for name in self.statics:  # may be a newer version
            self.statistics.replace(self._static(name), self._static_joins())
        self.optimizer.resume(state["optimizer"])
        self.rule = self.rule.resumed(state.get("order", ()))
        self.switches = int(state["switches"])

    # ------------------------------------------------------------------ inside
    def _source_statistics(self) -> dict[str, Statistics]:
        found: dict[str, Statistics] = {s: self.statistics.view(self.rule.contents(s)) for s in self.sources}
        if not self.statistics.epoch:
            found = {s: BeforeElements(one, frozenset(self.sources)) for s, one in found.items()}
        return found

    def _rows_in(self, view: Statistics) -> Callable[[str], float]:
        assumed = self.optimizer.base.assumptions

        def rows(name: str) -> float:
            known = view.cardinality(name)
            return known if known is not None else assumed.dynamic if name in self.sources else assumed.static

        return rows

    def _static(self, name: str) -> StaticRelation:
        counts = self.statics[name]
        return StaticRelation(
            name,
            tuple(counts.keys),
            counts.rows,
            {variable: round(keys.distinct) for variable, keys in counts.keys.items()},
            {variable: self._fanout(name, keys) for variable, keys in counts.keys.items()},
            keeps_nulls=self.layout.graph.relations[self.layout.graph.index[name]].kind in ("optional", "anti"),
        )

    def _fanout(self, name: str, keys: KeyCounts) -> Fanout:
        """The rows that a join with the relation makes of each key; those of a unit include the rows without a partner, or only them.

        They are right on average only where keys are sampled, and may be negative then.
        """
        match self.layout.graph.relations[self.layout.graph.index[name]].kind:
            case "optional":
                return lambda found: keys.fanout(found) + 1 - keys.matches(found)
            case "semi":
                return keys.matches
            case "anti":
                return lambda found: 1 - keys.matches(found)
        return keys.fanout

    def _inner(self) -> list[str]:
        return [name for name in self.statics if self.layout.graph.relations[self.layout.graph.index[name]].kind == "inner"]

    def _static_joins(self) -> dict[tuple[str, str, str], float]:
        return {
            (left, right, variable): self.statics[left].keys[variable].join_size(self.statics[right].keys[variable])
            for left, right in combinations(self._inner(), 2)
            for variable in self.statics[left].keys
            if variable in self.statics[right].keys
        }


def _side_bytes(
    choice: PlanChoice, plan: Plan, at: int, rows: Callable[[str], float], widths: Mapping[str, float]
) -> Iterator[tuple[float, float]]:
    """Those of a part of a plan whose first operator has the number ``at``."""
    if isinstance(plan, Scan):
        yield (rows(plan.relation) * widths[plan.relation],) * 2
        return
    yield from _side_bytes(choice, plan.input, at, rows, widths)
    middle = at + size(plan.input)
    left = choice.estimated[middle - 1] * sum(widths[name] for name in relations(plan.input))
    if isinstance(plan, Join):
        yield from _side_bytes(choice, plan.build, middle, rows, widths)
        built = choice.estimated[middle + size(plan.build) - 1]
        yield left, built * sum(widths[name] for name in relations(plan.build))
    else:
        yield left, sum(rows(name) * widths[name] for name in right_relations(plan))


def _intervals(width: int) -> Intervals:
    def intervals(times: Ints) -> tuple[Ints, Ints]:
        return times, np.asarray(times, np.int64) + width

    return intervals
