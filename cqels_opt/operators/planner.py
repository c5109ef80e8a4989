"""The optimizer of one program: statistics that follow its windows, and a plan for each delta source of each block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np

from cqels_opt.operators import cache
from cqels_opt.operators.block import Observed
from cqels_opt.operators.costs import MeasuredCosts
from cqels_opt.operators.decision import Decision, Ran
from cqels_opt.operators.heuristics import ranks
from cqels_opt.operators.machine import Calibration
from cqels_opt.operators.program import Block, Occurrence, Program, Static
from cqels_opt.operators.review import Catalogue, Review, translated
from cqels_opt.operators.row_by_row import written
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.splitting import Splitter
from cqels_opt.operators.step import Step
from cqels_opt.operators.summands import Summed, parts_for, static_summand, summands
from cqels_opt.operators.terms import TermTable
from cqels_opt.operators.units import rows_of_each
from cqels_opt.operators.views import BeforeElements, PerBinding
from cqels_opt.operators.walk import TAKES, Walks
from cqels_opt.operators.weights import is_uncertain, weight
from cqels_opt.operators.workshop import Workshop
from cqels_opt.plans import (
    Choice,
    Cut,
    Filter,
    Optimizer,
    Plan,
    PlanError,
    QueryGraph,
    Relation,
    SecondsCost,
    Split,
    Statistics,
    check,
    occurrence_order,
)
from cqels_opt.plans.cost import CostModel, Shuffled, model_named
from cqels_opt.plans.designs import Design, design_of
from cqels_opt.plans.physical import CHOSEN_FROM, By, Machine, Prices, physical
from cqels_opt.plans.physical import Relation as PhysicalRelation
from cqels_opt.plans.placing import HEAVY, Placing
from cqels_opt.plans.plan import relations as plan_relations
from cqels_opt.query.algebra import Window
from cqels_opt.stats import BlockStatistics, SlotCounts, StaticRelation
from cqels_opt.stats import Occurrence as StatisticsOccurrence
from cqels_opt.stats.window import Content
from cqels_opt.trace.records import Delta, SubResults
from cqels_opt.windows.intervals import FOREVER, validity

Estimates: TypeAlias = Literal["bindings", "pairwise", "feedback", "walks", "all"]
"""What rows are estimated from: the rows and distinct values of each relation, as the report has them (``bindings``); join sizes of
pairs, which are exact (``pairwise``); those with what operators gave before (``feedback``), or with sampled walks of the delta through the
indexes (``walks``); or with both (``all``)."""


@dataclass(frozen=True, slots=True)
class PlanMode:
    """``--plan``: a mode of the optimizer, or the plans that are kept; the cost model and its constants; and what rows are estimated from.

    ``split`` allows a skewed delta to be split (``splitting.py``), ``designs`` other sub-results to be taken than those compiled
    (``review.py``). ``shuffled``: the sides of a join that the runner sends through a
    shuffle. ``joins``: what may do the joins on this ``machine``; the cheapest does, and if only one may, that one. The mode ``spark``
    says that the runner's own planner decides: ours is idle, and takes the order written. ``placing`` says where filters stand; in the
    mode ``heuristic`` joins are ordered by H1 and, with ``graphs``, H2. ``remember``: results of extension functions are kept until a
    step ends.
    """

    mode: str = "adaptive"
    fixed: Mapping[str, Plan | Split] | None = None
    cost_model: str = "default"
    estimates: Estimates = "all"
    split: bool = True
    designs: bool = True
    calibration: Calibration = field(default_factory=Calibration)
    shuffled: Shuffled = "nothing"
    machine: Machine = field(default_factory=Machine)
    joins: tuple[By, ...] = CHOSEN_FROM
    walk: float = TAKES  # seconds a relation that walking a plan takes
    placing: Placing = "cost"
    graphs: bool = True
    remember: bool = True

    @property
    def model(self) -> CostModel:
        """The cost model, with its constants."""
        if self.cost_model == "default":
            return SecondsCost(self.calibration.constants, self.shuffled)
        return model_named(self.cost_model)


class BlockPlanner:
    """Statistics and optimizer of one block."""

    def __init__(
        self, block: Block, store: str, mode: PlanMode, elements: Mapping[str, Ints], workshop: Workshop | None = None
    ) -> None:
        self.block, self.store, self.mode = block, store, mode
        merged = [replace(o.static, name=static_summand(o)) for o in block.occurrences if o.static is not None]
        statics = [*merged, *block.statics]
        self.statistics = BlockStatistics(
            [*(x for o in block.occurrences for x in _summands(o, elements)), *(_static(s, store) for s in statics)],
            filters=[f.name for f in block.filters],
            static_joins=_static_joins(statics, store),
        )
        self.sources = [o.name for o in block.occurrences]
        self.elsewhere = mode.mode == "spark"
        chosen: str | Mapping[str, Plan] = "first" if self.elsewhere else mode.mode
        self.given: Mapping[str, Split] = {}
        if mode.fixed is not None:
            fixed = {source: mode.fixed[source] for source in self.sources if source in mode.fixed}
            self.given = {source: plan for source, plan in fixed.items() if isinstance(plan, Split)}
            for source, split in self.given.items():
                check(split, graph_of(block).with_filter_units(plan_relations(split.few)), source)
            chosen = {source: plan.few if isinstance(plan, Split) else plan for source, plan in fixed.items()}
        self.estimates = mode.estimates
        self.declared = {f.name: weight(f.condition) for f in block.filters if weight(f.condition) >= HEAVY}
        self.costs = MeasuredCosts(mode.calibration.constants.evaluate)
        self.optimizer = self.optimizer_of(block, chosen)
        self.order: tuple[str, ...] = tuple(self.sources)
        self.splitter: Splitter | None = self._splitter()
        self.decisions: dict[str, Decision] = {}
        self._ran: dict[str, Ran] = {}  # in an earlier run's last batch
        self.given_rows: Mapping[str, Sequence[int]] = {}  # by the operators of what was decided, once it has run
        self._views: dict[str, Statistics] = {}
        self._left: Mapping[str, Plan] = {}  # the plans of the design that has just been left
        self.designs = Catalogue(block, store, workshop.folder if workshop else None)
        self.review: Review | None = None
        model = self.optimizer.model
        if workshop and mode.designs and block.parts and chosen == "adaptive" and isinstance(model, SecondsCost):
            self.review = Review(self.designs, workshop, self.optimizer_of, model.constants)

    def optimizer_of(self, block: Block, chosen: str | Mapping[str, Plan] = "adaptive") -> Optimizer:
        """An optimizer for the block, under whatever design."""
        feedback = self.mode.estimates in ("feedback", "all")
        graph = graph_of(block, self.mode.graphs, as_written=chosen != "adaptive")
        found = Optimizer(graph, self.sources, self.mode.model, chosen, feedback=feedback, placing=self.mode.placing)
        found.weigh(self.costs.weights)
        return found

    def _splitter(self) -> Splitter | None:
        mode = self.mode
        adaptive = mode.mode == "adaptive" and mode.fixed is None and mode.placing == "cost"
        if mode.split and adaptive and mode.estimates in ("walks", "all"):
            return Splitter(self.block, self.store, self.optimizer.graph, self.optimizer.model, self.costs.weights)
        return None

    # -------------------------------------------------------------- which sub-results
    def take(self, design: Design) -> None:
        """Another design from now on, whose sub-results are there: other static relations, the same windows and their statistics."""
        before, after = self.block, self.designs.block_of(design)
        for static in after.statics:
            self.declare(static)
        merged = [static_summand(o) for o in after.occurrences if o.static is not None]
        self.statistics.watch([*self.statistics.windows, *merged, *(s.name for s in after.statics)])
        left, self.block, self.optimizer = self.optimizer, after, self.optimizer_of(after)
        self.splitter = self._splitter()
        if left.current:  # both read the statistics of now: what was learnt is a ratio to what they say
            views = self.views()
            left.price(views)
            self.optimizer.price(views)
            self.optimizer.teach({s: translated(left.learnt(s, walked=False), self.designs, before, after) for s in self.sources})

    def state(self) -> dict[str, Any]:
        """What a restart needs to know of the last batch's decisions, and about the design."""
        design = {"design": list(self.designs.default)} if self.review is None else self.review.state()
        ran = {source: decision.ran for source, decision in self.decisions.items()}
        return {**design, "ran": ran, "costs": self.costs.state(), "looks": self.splitter.pace.since if self.splitter else {}}

    def resume(self, state: Mapping[str, Any] | None) -> bool:
        """Takes up the design of an earlier run; False where it is gone, and with it what its optimizer knew."""
        if state is None:
            return True
        self.costs.resume(tuple(row) for row in state.get("costs", ()))
        self.optimizer.weigh(self.costs.weights)
        there = self._resume_design(state)
        if there and self.splitter is not None:
            self.splitter.pace.resume(state.get("looks", {}))
        for source, (plan, cut, heavy) in state["ran"].items():
            self._ran[source] = Ran(plan, Cut(*cut) if cut else None, heavy)
            if cut and there and self.splitter is not None:
                self.splitter.cuts[source] = Cut(*cut)
        return there

    def _resume_design(self, state: Mapping[str, Any]) -> bool:
        if self.review is None:
            return design_of(state["design"]) == self.designs.default
        if not self.review.resume(state):
            return False
        if self.review.current != self.designs.default:
            self.take(self.review.current)
        return True

    def settle(self) -> None:
        """Takes a design that has paid for itself and is there."""
        if self.review is not None and (design := self.review.due()) is not None:
            self._left = {**self.optimizer.current}
            self.take(design)
            self.review.taken(design)

    def consider(self) -> None:
        """Weighs other designs, each time that batches have cost anything to speak of."""
        if (
            self.review is None
            or not self.statistics.epoch
            or not any(window.card("delta") for window in self.statistics.windows.values())
        ):
            return
        cost = sum(decision.cost for decision in self.decisions.values())
        if not self.review.turn(cost):
            return
        for static in self.designs.statics.values():
            self.declare(static)
        learnt = {source: self.optimizer.learnt(source) for source in self.sources}
        self.review.weigh(self._views, cost, learnt, self.block, [choice.plan for choice in self.choices.values()])

    def declare(self, static: Static) -> None:
        """The statistics know a relation, whether or not the design of now has it."""
        if static.name not in self.statistics.relations:
            self.statistics.declare(_static(static, self.store))

    # -------------------------------------------------------------- a batch
    def advance(self, new: Mapping[str, Sequence[SlotCounts]], before: int, frontier: int) -> None:
        """The statistics follow a step of the frontier; ``new`` by Shape.key and stream."""
        arrived: dict[str, Sequence[SlotCounts]] = {}
        for o in self.block.occurrences:
            names = {v: f"v{i}" for i, v in enumerate(o.variables)}
            for name, part in zip(summands(o), o.parts):
                arrived[name] = [c.renamed(names) for c in new.get(part.shape.stream + part.shape.key, ())]
        self.statistics.advance(arrived, before, frontier)

    def views(self) -> dict[str, Statistics]:
        """What the plans of each source read now; and the order of the delta rule, which they hang on."""
        # of equals by what they are, so that the order in which a query is written decides nothing
        widest = sorted(self.block.occurrences, key=lambda o: (-_extent(o.window), *what_it_is(o)))
        windows = self.statistics.windows
        contents: dict[str, float | None] = {o.name: float(sum(windows[n].card("old") for n in summands(o))) for o in widest}
        self.order = tuple(occurrence_order(contents))
        views: dict[str, Statistics] = {s: self._view_for(s) for s in self.sources}
        if not self.statistics.epoch:
            views = {s: BeforeElements(view, frozenset(self.sources)) for s, view in views.items()}
        if self.estimates == "bindings":
            views = {s: PerBinding(view) for s, view in views.items()}
        return views

    def _view_for(self, source: str) -> Statistics:
        """The statistics as a source's delta plan sees them, see :meth:`BlockStatistics.for_source`; merged relations are added up."""
        if not any(o.merged for o in self.block.occurrences):
            return self.statistics.for_source(source, self.order)
        meaning: dict[str, tuple[Content, ...]] = {}
        before = self.order[: self.order.index(source)]
        for o in self.block.occurrences:
            meant: tuple[Content, ...] = ("delta",) if o.name == source else ("old", "delta") if o.name in before else ("old",)
            meaning |= dict.fromkeys(summands(o), meant)
        (mine,) = (summands(o) for o in self.block.occurrences if o.name == source)
        view = self.statistics.view(meaning, self.statistics.begins(*mine))
        return Summed(view, parts_for(source, self.block.occurrences))

    def choose(self, step: Step | None, terms: TermTable | None) -> None:
        """The plans of now; for a step with a delta, which may be walked."""
        views, self.given_rows = self.views(), {}
        before = self._ran | {source: decision.ran for source, decision in self.decisions.items()}
        self._views = views
        walk = None
        if step is not None and terms is not None and self.estimates in ("walks", "all"):
            walk = Walks(self.block, self.store, step, self.order, terms)
        left, self._left = self._left, {}
        takes = self.mode.walk * len(self.optimizer.graph.relations) if self.optimizer.model.unit == "s" else 0.0
        choices = self.optimizer.choose(views, walk=walk, takes=takes)
        choices = {s: c if left.get(s, c.plan) == c.plan else replace(c, previous=left[s]) for s, c in choices.items()}
        self.decisions = {
            source: Decision(choice, self.given.get(source), before.get(source)) for source, choice in choices.items()
        }
        if self.splitter is not None and step is not None and terms is not None:
            for source, choice in choices.items():
                split = self.splitter.choose(choice, views[source], step, self.order, terms)
                self.decisions[source] = Decision(choice, split, before.get(source))

    def standing_plan(self, variable: str | None) -> Plan:
        """The cheapest plan for all rows that stand now, from the relation with a variable on, or else from a delta source on."""
        having = [s.name for s in self.block.inner if variable in s.variables]
        start = min(having or self.sources, key=lambda name: self.statistics.view(self._standing()).cardinality(name) or 0.0)
        view = Summed(self.statistics.view(self._standing()), parts_for("", self.block.occurrences))
        optimizer = Optimizer(graph_of(self.block), [start], self.mode.model)
        return optimizer.choose({start: view})[start].plan

    def _standing(self) -> dict[str, tuple[Content, ...]]:
        return dict.fromkeys(self.statistics.windows, ("old", "delta"))

    def physical(self, tasks: int) -> dict[str, tuple[By | None, ...]]:
        """What does the joins of each source's plan in so many tasks, where that is not replicated probes alone."""
        model, machine = self.optimizer.model, self.mode.machine
        if self.elsewhere or not isinstance(model, SecondsCost) or self.mode.joins == (By.REPLICATED,):
            return {}
        found = {}
        for source, decision in self.decisions.items():
            whole = decision.whole
            if decision.split is not None or whole.plan != self.optimizer.current.get(source):  # of which nothing is estimated
                continue
            relations = {
                r.name: PhysicalRelation(self._views[source].cardinality(r.name) or 0.0, len(r.variables))
                for r in self.optimizer.graph.relations
                if r.kind != "filter"
            }
            prices = Prices(machine, tasks, model.constants, relations=relations)
            if len(self.mode.joins) > 1 and tasks == 1 and not any(map(prices.missing, relations)):
                continue  # there is nothing to share out
            way = physical(whole.plan, whole.operators, whole.estimated, prices, self.mode.joins)
            if not way.fused:
                found[source] = way.by
                self.decisions[source] = replace(decision, by=way.by)
        return found

    def observe(self, observed: Observed) -> None:
        """What the filters kept, and what the operators of each source gave."""
        self.given_rows = observed.operators
        for name, (before, after) in observed.filters.items():
            self.statistics.observe(name, before, after)
        if self.costs.observe(observed.evaluated, self.declared):
            self.optimizer.weigh(self.costs.weights)
        for source, counts in observed.operators.items():
            decision = self.decisions[source]
            if not self.elsewhere and decision.split is None and len(counts) == len(decision.whole.operators):
                self.optimizer.observe(source, counts)

    @property
    def choices(self) -> dict[str, Choice]:
        """What was chosen for each delta as a whole."""
        return {source: decision.whole for source, decision in self.decisions.items()}

    def deltas(self, observed: Observed | None) -> list[Delta]:
        """The trace's account of the plans."""
        if self.elsewhere:
            return [Delta(source, "spark") for source in self.sources]
        return [d.delta(observed.operators.get(source) if observed else None) for source, d in self.decisions.items()]


def graph_of(block: Block, graphs: bool = True, as_written: bool = True) -> QueryGraph:
    """The relations of a block with its filters; ``graphs``: ranks are those of H2, not only of H1.

    They come in the order in which the query names them or, so that this order decides nothing, by what they are.
    """
    rank = ranks(block, graphs)
    relations = {
        **{o.name: Relation(o.name, frozenset(o.variables), True, rank=rank[o.name]) for o in block.occurrences},
        **{s.name: replace(_relation(s), rank=rank[s.name]) for s in block.statics},
    }
    filters = [
        Filter(f.name, f.variables, weight=weight(f.condition), uncertain=is_uncertain(f.condition)) for f in block.filters
    ]
    if as_written:
        return QueryGraph([relations[n] for n in block.written], filters)
    streams = sorted(block.occurrences, key=what_it_is)
    conditions = {f.name: written(f.condition) for f in block.filters}
    names = [*(o.name for o in streams), *(s.name for s in block.statics)]
    return QueryGraph(
        [relations[name] for name in names], sorted(filters, key=lambda f: (sorted(f.variables), conditions[f.name]))
    )


def what_it_is(o: Occurrence) -> tuple[str, str, tuple[int, ...], tuple[str, ...]]:
    """What tells an occurrence from others, wherever it is written."""
    return o.window.stream, repr((o.window.kind, o.window.width, o.window.slide)), o.shape.constants, o.variables


def _summands(o: Occurrence, elements: Mapping[str, Ints]) -> list[StatisticsOccurrence]:
    """The windows of an occurrence, each under a name of its own."""
    return [_occurrence(replace(part, name=name), elements) for name, part in zip(summands(o), o.parts)]


def _extent(window: Window) -> float:
    if window.kind == "now":
        return 1.0
    return float("inf") if window.kind == "all" else float(window.width + window.slide or window.count)


def _occurrence(o: Occurrence, elements: Mapping[str, Ints]) -> StatisticsOccurrence:
    if o.window.kind != "last":
        return StatisticsOccurrence(o.name, o.variables, lambda t: validity(o.window, t, o.t0))

    def intervals(t: Ints) -> tuple[Ints, Ints]:
        times = elements.get(o.window.stream, np.empty(0, np.int64))
        place = np.searchsorted(times, t, "right") - 1 + o.window.count
        return t, np.append(times, FOREVER)[np.minimum(place, len(times))]

    return StatisticsOccurrence(o.name, o.variables, intervals, moving=True)


def _static(s: Static, store: str) -> StaticRelation:
    relation, counted = cache.relation(store, s.at), cache.store(store).counted
    variables = s.variables if s.kind == "inner" else s.on
    return StaticRelation(
        s.name,
        variables,
        relation.rows,
        {v: relation.distinct(v) for v in variables},
        {} if not counted else {v: rows_of_each(s.kind, relation.index((v,)).fanout) for v in variables},
    )


def _relation(s: Static) -> Relation:
    if s.kind == "inner":
        return Relation(s.name, frozenset(s.variables), False)
    return Relation(s.name, frozenset(s.variables if s.kind == "optional" else s.on), False, s.kind, frozenset(s.on + s.reads))


def _static_joins(statics: Sequence[Static], store: str) -> dict[tuple[str, str, str], float]:
    """The rows that two static relations join to on each variable of both, or one with a unit: exact, and the same in every batch.

    Of data that are described and not there nobody has counted them.
    """
    found: dict[tuple[str, str, str], float] = {}
    if len(statics) < 2 or not cache.store(store).counted:
        return found
    for left, right in combinations(statics, 2):  # units come last
        if left.kind != "inner":
            break
        for variable in sorted(set(left.variables) & set(right.variables if right.kind == "inner" else right.on)):
            size = cache.join_size(store, left.at, right.at, variable, right.kind)
            found[left.name, right.name, variable] = float(size)
    return found


class Planner:
    """The blocks of a program. ``elements`` are the times of a stream's elements, in order, by which rows of last-n windows end.

    Raises :class:`PlanError` for a fixed plan of a source that the program does not have."""

    def __init__(self, program: Program, mode: PlanMode, workshop: Workshop | None = None) -> None:
        """Without a ``workshop`` the sub-results stay those that were compiled."""
        self.elements: dict[str, Ints] = {}
        self.compiled = program
        self.blocks = {b.name: BlockPlanner(b, program.store, mode, self.elements, workshop) for b in program.blocks}
        sources = [source for block in self.blocks.values() for source in block.sources]
        for name in mode.fixed or {}:
            if name not in sources:
                raise PlanError(f"there is no delta source {name!r}; the query has {', '.join(sources)}")

    def advance(self, new: Mapping[str, Sequence[SlotCounts]], before: int, frontier: int) -> None:
        """The statistics follow."""
        for block in self.blocks.values():
            block.advance(new, before, frontier)

    def choose(self, step: Step | None = None) -> tuple[dict[str, dict[str, str]], dict[str, tuple[str, ...]]]:
        """(plans by block and source, orders by block), as a step carries them. ``step`` is what they are for, where it has a delta."""
        terms = None
        if step is not None:  # for walks, whose calls are not the batch's
            terms = cache.term_table(self.compiled.store, self.compiled.seed, replace(step, remember=False))
        for block in self.blocks.values():
            block.settle()
            block.choose(step, terms)
            block.consider()
        plans = {name: {s: str(d.plan) for s, d in block.decisions.items()} for name, block in self.blocks.items()}
        return plans, {name: block.order for name, block in self.blocks.items()}

    def physical(self, tasks: int) -> dict[str, dict[str, tuple[By | None, ...]]]:
        """For each block what does its joins in so many tasks, where that is not replicated probes alone."""
        return {name: found for name, block in self.blocks.items() if (found := block.physical(tasks))}

    @property
    def program(self) -> Program:
        """The program with the sub-results of now."""
        return replace(self.compiled, blocks=tuple(block.block for block in self.blocks.values()))

    @property
    def changes(self) -> tuple[SubResults, ...]:
        """What changed about sub-results with the last choice, for the trace."""
        return tuple(change for block in self.blocks.values() if block.review for change in block.review.events)

    @property
    def filter_orders(self) -> dict[str, tuple[str, ...]]:
        """For each block its filters, in the order in which those at one place are evaluated."""
        return {name: block.optimizer.filter_order for name, block in self.blocks.items() if block.sources}

    @property
    def fallback(self) -> str | None:
        """Why the optimizer fell back to a greedy order, where it did."""
        found = [name for name, block in self.blocks.items() if block.optimizer.fallback]
        return f"block {', '.join(found)}: more join pairs than the budget; greedy order" if found else None

    @property
    def seconds(self) -> float:
        """What the chosen plans cost together, where that is estimated in seconds; else 0."""
        blocks = [b for b in self.blocks.values() if b.optimizer.model.unit == "s" and not b.elsewhere]
        return sum(choice.cost for block in blocks for choice in block.choices.values())

    @property
    def epoch(self) -> int:
        """The epoch of the statistics."""
        return max((block.statistics.epoch for block in self.blocks.values()), default=0)
