"""The optimizer of one block: its statistics, and a plan for each of its delta sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isfinite
from typing import Any

from cqels_opt.operators.block_relations import BlockRelations
from cqels_opt.operators.blocks import Block, Static
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.row_limit import StoppedDelta
from cqels_opt.operators.term_table import TermTable
from cqels_opt.planner.background_jobs import BackgroundJobs
from cqels_opt.planner.block_graph import graph_of, occurrences_of, static_joins, static_of, what_it_is
from cqels_opt.planner.delta_plan import DeltaPlan, LastPlan, StoppedChoice
from cqels_opt.planner.filter_costs import MeasuredCosts
from cqels_opt.planner.join_sampling import NEW_ROWS, JoinSampler, on_demand
from cqels_opt.planner.merged_degrees import MergedDegrees
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.predicate_costs import weight
from cqels_opt.planner.row_limits import limits_of, rows_seen
from cqels_opt.planner.skew_splitting import SplitChoice, Splitter
from cqels_opt.planner.statistics_adapters import BeforeElements, PerBinding
from cqels_opt.planner.union_statistics import UnionStatistics, parts_for, static_summand, summands
from cqels_opt.planner.view_advisor import ViewAdvisor, ViewCatalogue, translated
from cqels_opt.plans import (
    Cut,
    DeltaRule,
    Optimizer,
    Plan,
    PlanChoice,
    SecondsCost,
    Split,
    Statistics,
    check,
)
from cqels_opt.plans.join_methods import REPLICATED, JoinMethod, PhysicalCostModel, RelationPlacement
from cqels_opt.plans.physical import physical
from cqels_opt.plans.plan import joins as plan_joins
from cqels_opt.plans.plan import operators as plan_operators
from cqels_opt.plans.plan import parts as plan_parts
from cqels_opt.plans.plan import probed_keys
from cqels_opt.plans.plan import relations as plan_relations
from cqels_opt.plans.predicate_placement import HEAVY
from cqels_opt.plans.size_bounds import SizeBounds
from cqels_opt.plans.view_selection import Design, design_of
from cqels_opt.stats import BlockStatistics, DegreeView, SharedWindows, SlotCounts
from cqels_opt.stats.block_statistics import Contents
from cqels_opt.stats.window import BOTH
from cqels_opt.trace.records import Delta
from cqels_opt.windows.binding_slots import Shape
from cqels_opt.windows.kinds import kind_of


class BlockPlanner:
    """Statistics and optimizer of one block."""

    def __init__(
        self,
        block: Block,
        store: str,
        options: PlannerOptions,
        shared: SharedWindows,
        background_jobs: BackgroundJobs | None = None,
    ) -> None:
        self.block, self.store, self.options, self._shared = block, store, options, shared
        merged = [replace(o.static, name=static_summand(o)) for o in block.occurrences if o.static is not None]
        statics = [*merged, *block.statics]
        self.statistics = BlockStatistics(
            [
                *occurrences_of(block, shared.elements),
                *(static_of(s, store) for s in statics),
            ],
            filters=[f.name for f in block.filters],
            static_joins=static_joins(statics, store),
            shared=shared,
        )
        self.sources = [o.name for o in block.occurrences]
        self.planned_by_spark = options.mode == "spark"
        chosen: str | Mapping[str, Plan] = "first" if self.planned_by_spark else options.mode
        self.fixed_splits: Mapping[str, Split] = {}
        if options.fixed is not None:
            fixed = {source: options.fixed[source] for source in self.sources if source in options.fixed}
            self.fixed_splits = {source: plan for source, plan in fixed.items() if isinstance(plan, Split)}
            for source, split in self.fixed_splits.items():
                check(split, graph_of(block).with_filter_units(plan_relations(split.few)), source)
            chosen = {source: plan.few if isinstance(plan, Split) else plan for source, plan in fixed.items()}
        self.estimates = options.estimates
        self.declared = {f.name: weight(f.condition) for f in block.filters if weight(f.condition) >= HEAVY}
        self.costs = MeasuredCosts(options.calibration.constants.evaluate)
        self.optimizer = self.optimizer_of(block, chosen)
        # the widest window first; ties in an order that does not depend on how the query is written
        widest = sorted(block.occurrences, key=lambda o: (-kind_of(o.window).extent, *what_it_is(o)))
        self.rule = DeltaRule(tuple(o.name for o in widest))
        self.splitter: Splitter | None = self._splitter()
        self.delta_plans: dict[str, DeltaPlan] = {}
        self._ran: dict[str, LastPlan] = {}  # in the last batch of an earlier run
        self.observed_rows: Mapping[str, Sequence[int]] = {}  # of the operators of the chosen plans, after they ran
        self._statistics_read: dict[str, Statistics] = {}
        self._left: Mapping[str, Plan] = {}  # the last plans under the design before, right after a change
        self.catalogue = ViewCatalogue(block, store, background_jobs.folder if background_jobs else None)
        self._pricing: Callable[[], None] | None = None  # of other designs, if it is due for the batch
        self.advisor: ViewAdvisor | None = None
        model = self.optimizer.model
        if background_jobs and options.view_selection and block.parts and chosen == "adaptive" and isinstance(model, SecondsCost):
            self.advisor = ViewAdvisor(self.catalogue, background_jobs, self.optimizer_of, model.constants)

    def optimizer_of(self, block: Block, chosen: str | Mapping[str, Plan] = "adaptive") -> Optimizer:
        """An optimizer for the block under a design."""
        feedback = self.options.estimates in ("feedback", "all")
        graph = graph_of(block, self.options.graphs, chosen != "adaptive", self.options.window_indexes)
        found = Optimizer(graph, self.sources, self.options.model, chosen, feedback=feedback, placing=self.options.placing)
        found.set_filter_weights(self.costs.weights)
        return found

    def _splitter(self) -> Splitter | None:
        options = self.options
        adaptive = options.mode == "adaptive" and options.fixed is None and options.placing == "cost"
        if options.split and adaptive and options.estimates in ("sampling", "all"):
            return Splitter(self.optimizer.graph, self.optimizer.model, self.costs.weights, options.sampling_seconds)
        return None

    # -------------------------------------------------------------- view selection
    def use_design(self, design: Design) -> None:
        """Changes to a design whose sub-results are built: other static relations, the same windows with their statistics."""
        before, after = self.block, self.catalogue.block_of(design)
        for static in after.statics:
            self.declare(static)
        merged = [static_summand(o) for o in after.occurrences if o.static is not None]
        self.statistics.watch([*self.statistics.windows, *merged, *(s.name for s in after.statics)])
        left, self.block, self.optimizer = self.optimizer, after, self.optimizer_of(after)
        self.splitter = self._splitter()
        if left.current:  # both price the current statistics, because feedback is a ratio to these
            statistics = self.source_statistics()
            left.price(statistics)
            self.optimizer.price(statistics)
            self.optimizer.seed_feedback(
                {
                    s: translated(left.observed_cardinalities(s, sampled=False), self.catalogue, before, after)
                    for s in self.sources
                }
            )

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint: the last plans, the order of the delta rule, the measured costs of filters, and the design."""
        design = {"design": list(self.catalogue.default)} if self.advisor is None else self.advisor.state()
        ran = {source: delta_plan.ran for source, delta_plan in self.delta_plans.items()}
        split = self.splitter.state() if self.splitter else None
        return {**design, "ran": ran, "order": self.rule.order, "costs": self.costs.state(), "split": split}

    def resume(self, state: Mapping[str, Any] | None) -> bool:
        """Restores :meth:`state`. Returns False if a sub-result of its design was deleted; the optimizer's state is then of no use."""
        if state is None:
            return True
        self.rule = self.rule.resumed(state.get("order", ()))
        self.costs.resume(tuple(row) for row in state.get("costs", ()))
        self.optimizer.set_filter_weights(self.costs.weights)
        there = self._resume_design(state)
        for source, (plan, cut, heavy) in state["ran"].items():
            self._ran[source] = LastPlan(plan, Cut(*cut) if cut else None, heavy)
        if there and self.splitter is not None and state["split"] is not None:
            self.splitter.resume(state["split"], {source: ran.cut for source, ran in self._ran.items() if ran.cut})
        return there

    def _resume_design(self, state: Mapping[str, Any]) -> bool:
        if self.advisor is None:
            return design_of(state["design"]) == self.catalogue.default
        if not self.advisor.resume(state):
            return False
        if self.advisor.current != self.catalogue.default:
            self.use_design(self.advisor.current)
        return True

    def apply_due_design(self) -> None:
        """Changes to a design that has paid for itself and is built."""
        if self.advisor is not None and (design := self.advisor.due()) is not None:
            self._left = {**self.optimizer.current}
            self.use_design(design)
            self.advisor.record_change(design)

    def _add_cost(self) -> None:
        """Adds the cost of the chosen plans to that of the batches since other designs were priced, and notes whether that is due again."""
        self._pricing = None
        if self.advisor is None or not self.statistics.epoch or not self._new_rows():
            return
        cost = sum(delta_plan.cost for delta_plan in self.delta_plans.values())
        if self.advisor.should_price(cost):
            observed = {source: self.optimizer.observed_cardinalities(source) for source in self.sources}
            plans = [choice.plan for choice in self.choices.values()]
            self._pricing = partial(self.advisor.price_designs, self._statistics_read, cost, observed, self.block, plans)

    def price_designs(self) -> None:
        """Prices other designs for the batch whose plans were chosen last, if that is due. A pricing can last
        50 ms, so it begins when the answers of the batch have been written."""
        if self._pricing is not None:
            for static in self.catalogue.statics.values():
                self.declare(static)
            self._pricing()
            self._pricing = None

    def declare(self, static: Static) -> None:
        """Adds a static relation to the statistics, whether or not the current design uses it."""
        if static.name not in self.statistics.relations:
            self.statistics.declare(static_of(static, self.store))

    # -------------------------------------------------------------- a batch
    def advance(self, new: Mapping[str, Sequence[SlotCounts]], before: int, frontier: int) -> None:
        """Moves the statistics to a step of the frontier; ``new`` has slots by stream and ``Shape.key``."""
        self.statistics.advance(self._by_window(new), before, frontier)

    def begin(self, content: Mapping[str, Sequence[SlotCounts]], before: int, frontier: int) -> None:
        """Counts the content of the windows, except of those that other blocks have counted."""
        self.statistics.begin(self._by_window(content), before, frontier)

    def _by_window(self, new: Mapping[str, Sequence[SlotCounts]]) -> dict[str, Sequence[SlotCounts]]:
        parts = [(name, part) for o in self.block.occurrences for name, part in zip(summands(o), o.parts)]
        return {name: new.get(part.shape.stream + part.shape.key, ()) for name, part in parts}

    def source_statistics(self) -> dict[str, Statistics]:
        """The statistics that the plans of each source read. Also sets the order of the delta rule, on which they depend."""
        windows, occurrences = self.statistics.windows, self.block.occurrences
        self.rule = self.rule.adjusted({o.name: float(sum(windows[n].card("old") for n in summands(o))) for o in occurrences})
        found: dict[str, Statistics] = {s: self._view_for(s) for s in self.sources}
        if not self.statistics.epoch:
            found = {s: BeforeElements(one, frozenset(self.sources)) for s, one in found.items()}
        if self.estimates == "bindings":
            found = {s: PerBinding(one) for s, one in found.items()}
        return found

    def _view_for(self, source: str) -> Statistics:
        """The statistics as the delta rule's term of a source reads them; merged relations are added up."""
        return self._merged(self._contents(source), source)

    def _contents(self, source: str) -> Contents:
        content_of = self.rule.content_of
        return {name: content_of(o.name, source) for o in self.block.occurrences for name in summands(o)}

    def _merged(self, contents: Contents, source: str = "") -> Statistics:
        parts = parts_for(source, self.block.occurrences)
        view = self.statistics.view(contents)
        return UnionStatistics(view, parts) if parts else view

    def size_bounds(self, source: str) -> SizeBounds | None:
        """Upper bounds of the rows of each set of relations in the term of a source, under the current statistics and order of the delta
        rule; None before the first element, or if counts were lost."""
        if not self.statistics.epoch or self._shared.begun is None:
            return None
        parts = [(name, part.shape) for o in self.block.occurrences for name, part in zip(summands(o), o.parts)]
        begun = {name: self._shared.begun.get(shape.stream + shape.key, ()) for name, shape in parts}
        view = DegreeView(self.statistics, self._contents(source), begun)
        degrees = MergedDegrees(view, parts_for(source, self.block.occurrences))
        return SizeBounds(self.optimizer.graph, source, degrees)

    def greatest_bound(self, source: str) -> int:
        """The greatest size bound of an operator of the current plan of a source; 0 if none is known."""
        graph, found = self.optimizer.graph, self.size_bounds(source)
        steps = [step for plan in plan_parts(self.delta_plans[source].plan) for step in plan_operators(plan, graph)]
        rows = [found.rows(graph.set_of(step.covers)) for step in steps] if found is not None else []
        return int(max((bound for bound in rows if isfinite(bound)), default=0))

    def _last_plans(self) -> dict[str, LastPlan]:
        """What ran in the batch before."""
        return self._ran | {source: plan.ran for source, plan in self.delta_plans.items()}

    def choose(self, step: EvaluationStep | None, terms: Callable[[], TermTable] | None) -> None:
        """Chooses the plans of a batch. With a ``step`` (one that has a delta) joins may be sampled and skewed deltas split; only then its
        relations are opened, and the ``terms`` are asked for."""
        self._statistics_read = statistics = self.source_statistics()
        last, self.observed_rows = self._last_plans(), {}
        relations = sampler = None
        if step is not None and terms is not None:
            relations = cache(partial(self._relations, step, terms))
            sampler = on_demand(relations) if self.estimates in ("sampling", "all") else None
        left, self._left = self._left, {}
        in_seconds, many_rows = self.optimizer.model.unit == "s", self._new_rows() // NEW_ROWS
        sampling = self.options.sampling_seconds if in_seconds else 0.0
        reading = self.options.reading_seconds if in_seconds else 0.0
        sample_overhead = sampling * many_rows
        choices = self.optimizer.choose(
            statistics,
            sampler=sampler,
            sampling_seconds=sampling * len(self.optimizer.graph.relations) + sample_overhead,
            bounds=self.size_bounds if step else None,
            reading_seconds=reading * (1 + many_rows),
        )
        choices = {s: c if left.get(s, c.plan) == c.plan else replace(c, previous=left[s]) for s, c in choices.items()}
        splits: dict[str, SplitChoice | Split | None] = dict(self.fixed_splits)
        if self.splitter is not None and relations is not None:
            for source, choice in choices.items():
                stays = not choice.switched and not self.optimizer.has_read(source)
                splits[source] = self.splitter.choose(choice, statistics[source], relations, sample_overhead, stays)
        self.delta_plans = {source: DeltaPlan(choice, splits.get(source), last.get(source)) for source, choice in choices.items()}
        self._add_cost()

    def _new_rows(self) -> int:
        """The rows of all deltas."""
        return sum(window.card("delta") for window in self.statistics.windows.values())

    def _relations(self, step: EvaluationStep, terms: Callable[[], TermTable]) -> BlockRelations:
        return BlockRelations(self.block, self.store, step, terms(), self.rule)

    def row_limits(self) -> dict[str, tuple[float, ...]]:
        """The limits on the rows of the operators of the chosen plans, for the sources whose delta can be planned again."""
        if self.optimizer.mode != "adaptive" or self.optimizer.fallback or self.planned_by_spark:
            return {}
        whole = {source: delta_plan.whole for source, delta_plan in self.delta_plans.items() if delta_plan.split is None}
        current = {source: choice for source, choice in whole.items() if choice.plan == self.optimizer.current.get(source)}
        return {source: limits for source, choice in current.items() if (limits := limits_of(choice)) is not None}

    def replan(self, stopped: StoppedDelta, step: EvaluationStep, terms: TermTable) -> None:
        """Plans the delta of a source that was stopped again."""
        delta_plan = self.delta_plans[stopped.source]
        relations = BlockRelations(self.block, self.store, step, terms, self.rule)
        sampler = JoinSampler(relations) if self.estimates in ("sampling", "all") else None
        seen = rows_seen(stopped, delta_plan.whole.estimated)
        choice = self.optimizer.replan(stopped.source, delta_plan.whole.plan, seen, sampler, self._statistics_read)
        earlier = (*delta_plan.stopped, StoppedChoice(delta_plan.whole, stopped.given, stopped.operator, stopped.expected))
        self.delta_plans[stopped.source] = DeltaPlan(choice, None, delta_plan.last, stopped=earlier)

    def repeat(self, observed: Observed, but: str = "") -> None:
        """Notes that the plans of the sources whose operators have given rows will run a second time, ``but`` of one source."""
        for source, given in observed.operators.items():
            delta_plan = self.delta_plans[source]
            if source != but and delta_plan.split is None:
                self.delta_plans[source] = replace(
                    delta_plan, stopped=(*delta_plan.stopped, StoppedChoice(delta_plan.whole, tuple(given)))
                )

    def plan_over_window_content(self, variable: str | None) -> Plan:
        """The cheapest plan for all rows that are valid now. It begins with a relation that has the variable, else with a delta source."""
        everything = self._merged(dict.fromkeys(self.statistics.windows, BOTH))
        unmerged = self.statistics.view(dict.fromkeys(self.statistics.windows, BOTH))
        having = [s.name for s in self.block.inner if variable in s.variables]
        start = min(having or self.sources, key=lambda name: unmerged.cardinality(name) or 0.0)
        graph = graph_of(self.block, window_indexes=self.options.window_indexes)
        optimizer = Optimizer(graph, [start], self.options.model)
        return optimizer.choose({start: everything})[start].plan

    def probed(self) -> set[tuple[Shape, tuple[int, ...]]]:
        """The join keys on which the current plans probe windows: shapes, and the numbers of their columns."""
        occurrences = {o.name: o for o in self.block.occurrences}
        plans = [part for delta_plan in self.delta_plans.values() for part in plan_parts(delta_plan.plan)]
        keys = {key for plan in plans for join in plan_joins(plan) for key in probed_keys(join)}
        return {
            (part.shape, tuple(sorted(part.variables.index(variable) for variable in on or part.variables)))
            for name, on in keys
            if name in occurrences
            for part in occurrences[name].parts
        }

    def physical(self, tasks: int) -> dict[str, tuple[JoinMethod | None, ...]]:
        """The join methods of each source's plan in a number of tasks, unless all are replicated probes."""
        model, machine = self.optimizer.model, self.options.machine
        if self.planned_by_spark or not isinstance(model, SecondsCost) or self.options.joins == (REPLICATED,):
            return {}
        others = any(method.in_task and method != REPLICATED for method in self.options.joins)
        in_memory = len(self.options.joins) > 1 and tasks == 1 and not others  # one task has nothing to distribute
        if in_memory and machine.memory is None:
            return {}
        found = {}
        for source, delta_plan in self.delta_plans.items():
            whole = delta_plan.whole
            if delta_plan.split is not None or whole.plan != self.optimizer.current.get(source):  # no estimates exist for it
                continue
            relations = {
                r.name: RelationPlacement(self._statistics_read[source].cardinality(r.name) or 0.0, len(r.variables))
                for r in self.optimizer.graph.relations
                if r.kind != "filter"
            }
            prices = PhysicalCostModel(machine, tasks, model.constants, relations=relations)
            if in_memory and not any(map(prices.missing, relations)):
                continue
            way = physical(whole.plan, whole.operators, whole.estimated, prices, self.options.joins)
            if not way.fused:
                found[source] = way.by
                self.delta_plans[source] = replace(delta_plan, by=way.by)
        return found

    def observe(self, observed: Observed) -> None:
        """Adds what filters kept and operators gave in the batch."""
        self.observed_rows = observed.operators
        for name, (before, after) in observed.filters.items():
            self.statistics.observe(name, before, after)
        if observed.filters:
            self.optimizer.read_selectivities(self._statistics_read)
        if self.costs.observe(observed.evaluated, self.declared):
            self.optimizer.set_filter_weights(self.costs.weights)
        for source, counts in observed.operators.items():
            delta_plan = self.delta_plans[source]
            operators = delta_plan.whole.operators
            if not self.planned_by_spark and delta_plan.split is None and len(counts) == len(operators):
                # each task builds a bushy part for itself, of the rows that its share can meet
                repeated = [source not in step.covers and tasks > 1 for step, tasks in zip(operators, observed.tasks(source))]
                self.optimizer.observe(source, [None if again else rows for rows, again in zip(counts, repeated)])

    def look_back(self) -> None:
        """Compares the plans of the batch with others under the rows that were observed, for the trace."""
        stopped = {
            source: [(s.choice.plan, s.given) for s in delta_plan.stopped] for source, delta_plan in self.delta_plans.items()
        }
        for source, found in self.optimizer.hindsight(stopped).items():
            self.delta_plans[source] = replace(self.delta_plans[source], hindsight=found)

    @property
    def choices(self) -> dict[str, PlanChoice]:
        """The plan choice for each whole delta."""
        return {source: delta_plan.whole for source, delta_plan in self.delta_plans.items()}

    def deltas(self, observed: Observed | None) -> list[Delta]:
        """The plans, for the trace."""
        if self.planned_by_spark:
            return [Delta(source, "spark") for source in self.sources]
        seen = observed or Observed()
        return [d.delta(seen.operators.get(source), seen.work.get(source, ())) for source, d in self.delta_plans.items()]
