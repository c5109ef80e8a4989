"""The optimizer: one plan for each delta source. It prices plans when statistics are read or plans are sampled (``steady.py``).

``adaptive`` takes the cheapest plan if it saves enough, in one batch or added up (``switching_rule.py``), so that plans of equal cost do
not alternate; a switch itself moves no state (DESIGN §4.3).
``static`` does what a database does: it keeps the cheapest plan as of the first elements.
``first`` joins in the order written, ``heuristic`` by the ranks of the graph's relations, ``worst`` takes the most expensive retained join
order, and given plans are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import chain, islice

import numpy as np

from cqels_opt.plans import plan as planning
from cqels_opt.plans import plan_extraction
from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.cost import Constants, CostModel
from cqels_opt.plans.cost_models import model_named
from cqels_opt.plans.dpccp import PAIR_BUDGET
from cqels_opt.plans.estimate_corrections import EstimateCorrections, ObservedRows
from cqels_opt.plans.greedy_plans import GreedyPlans, pairs_of
from cqels_opt.plans.hindsight import Hindsight, Stopped, hindsight
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.plan_choice import PlanChoice, scales_of
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.plan_pricing import PricedPlan, cost_of
from cqels_opt.plans.plan_sampling import PlanSampling
from cqels_opt.plans.plan_selection import PlanSelection, without_bounds
from cqels_opt.plans.plan_text import parse_plan
from cqels_opt.plans.predicate_placement import Placing, operators_among
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.reoptimization_budget import Reading, ReoptimizationBudget, is_surprising
from cqels_opt.plans.sampling import Sampler
from cqels_opt.plans.size_bounds import SizeBounds
from cqels_opt.plans.source_plans import SourcePlans, State
from cqels_opt.plans.statistics import Statistics
from cqels_opt.plans.statistics_reading import StatisticsReading
from cqels_opt.plans.steady import PRICING_SECONDS
from cqels_opt.plans.steady_plans import SteadyPlans
from cqels_opt.plans.validity_ranges import ValidityRange, validity_ranges

MODES = ("adaptive", "static", "first", "worst", "heuristic")


class Optimizer:
    """The optimizer of one block. State: the memo, the current plans, and the statistics that they were last chosen from.

    ``sources`` names the relations whose deltas are planned. ``cost_model`` is ``default``, ``paper`` or a model. ``mode`` is one of
    :data:`MODES`, or the plans to keep, one per source. With ``feedback`` the rows given to :meth:`observe` correct the estimates.
    ``placing``: see ``predicate_placement.py``. Raises :class:`PlanError` if a plan does not fit the graph, and ValueError for an unknown
    name.
    """

    def __init__(
        self,
        graph: QueryGraph,
        sources: Sequence[str],
        cost_model: str | CostModel = "default",
        mode: str | Mapping[str, Plan] = "adaptive",
        *,
        constants: Constants | None = None,
        pair_budget: int = PAIR_BUDGET,
        feedback: bool = False,
        placing: Placing = "cost",
    ) -> None:
        for source in sources:
            if source not in graph.index or graph.relations[graph.index[source]].kind != "inner":
                raise ValueError(f"delta source {source!r} is not a relation of the query graph that plans can begin with")
        if isinstance(mode, str) and mode not in MODES:
            raise ValueError(f"there is no plan mode {mode!r}; choose one of {', '.join(MODES)}, or give the plans")
        self.sources = tuple(sources)
        self.model = model_named(cost_model, constants)
        budget = pair_budget // max(1, len(sources))
        graph, pairs = operators_among(graph, self.model, mode, placing, budget)
        self.graph = graph
        self.mode = mode if isinstance(mode, str) else "fixed"
        self._feedback = feedback
        self._is_stale = False  # whether the memo has not been refreshed for the last choice
        self.is_steady = False  # whether the last batch was
        self._budget = ReoptimizationBudget()
        self.base = BaseEstimates(graph, self.sources)
        self._reading = StatisticsReading(graph, self.base)
        self.fallback = pairs is None
        self._corrections: EstimateCorrections | None = None  # with greedy search nothing is corrected
        kept, estimator = planning.plans_of_mode(mode, graph, self.sources), Estimator(self.base)
        needed = {source: pairs_of([kept.get(source)], graph) for source in self.sources}  # whatever they cost
        if pairs is None:
            memos = {source: Memo(estimator, needed[source], self.model, [source]) for source in self.sources}
        else:
            memo = Memo(estimator, [*pairs, *chain.from_iterable(needed.values())], self.model)
            memos = dict.fromkeys(self.sources, memo)
            self._corrections = EstimateCorrections(memo, self.sources, feedback)
        self._plans = {source: SourcePlans(memos[source], kept.get(source)) for source in self.sources}
        self._selection = PlanSelection(graph, self.mode, self.base, self._plans, self.fallback)
        self._steady = SteadyPlans(self.base, self._selection, self._plans, self._corrections)
        if self._corrections is None:
            self.greedy = GreedyPlans(self.model, self.base, self._plans, self._selection, self._budget)
        else:
            self._sampling = PlanSampling(self._corrections, self._selection, self.base, self._plans, self._budget)

    @property
    def memo(self) -> Memo:
        """The alternatives of all sources, as of the last choice that read statistics or sampled; with greedy search those of the first."""
        return self._plans[self.sources[0]].memo

    @property
    def current(self) -> Mapping[str, Plan]:
        """The last chosen plan of each source."""
        return {source: own.current for source, own in self._plans.items() if own.current is not None}

    def choose(
        self,
        statistics: Mapping[str, Statistics],
        sampler: Sampler | None = None,
        sampling_seconds: float = 0.0,
        bounds: Callable[[str], SizeBounds | None] | None = None,
        reading_seconds: float = 0.0,
    ) -> dict[str, PlanChoice]:
        """The plan of every delta source under the given statistics of each. ``bounds`` gives upper bounds of the rows of its joins.

        Only alternatives that depend on a changed statistic are priced again. ``sampler`` runs the cheapest plan on a sample of the delta;
        the counted rows correct the estimates for this delta (without feedback, until the next sample), and the search is repeated until
        its result has been sampled (sampling-based re-optimization, Wu, Naughton & Singh 2016). ``sampling_seconds`` is the cost of
        sampling a plan, in the cost model's unit: plans are sampled again once they have cost a multiple of it
        (:class:`ReoptimizationBudget`), or after surprising row counts. A greedy search takes about as long as sampling a plan, and runs as
        often. ``reading_seconds`` is what reading the size of a join with a static relation takes for a source. With feedback the sizes are
        read when they are due (:class:`ReadingBudget`); until then only rows of relations are read, and the plan stays unless sampled.
        """
        if not self.sources:
            return {}
        planned = [source for source, own in self._plans.items() if own.current is not None]
        followed = self._reading.begin(statistics, reading_seconds if self._feedback and not self.fallback else 0.0, planned)
        self._selection.bounds = cache(bounds) if bounds else without_bounds
        for own in self._plans.values():
            if own.priced is not None:  # from the bounds of the last batch, which a restart does not know
                own.priced.limit(None)
            own.begin()
        factors, due = self._steady.factors(followed, statistics), None
        if factors:
            costs = {source: choice.cost for source, choice in self._steady.anchored().items()}
            due = self._due_at(sampler, sampling_seconds, costs)
        self.is_steady = bool(factors) and not due
        if self.is_steady:
            choices = self._steady.keep(factors)
            self._is_stale = True
        else:
            self._steady.end()
            moved = self.base.read(statistics, None, followed)
            if self._corrections is None:
                self.greedy.search(moved, sampling_seconds)
                choices = self._choices(sampler is not None, self._reading.read)
            else:
                self._corrections.expire_samples()
                self.memo.postpone(moved)
                choices = self._stay_or_choose(sampler, sampling_seconds, due)
        for number, (source, own) in enumerate(self._plans.items()):
            own.choice = choice = choices[source]
            if choice.switched or own.seen is None or self.base.has_rows(source):
                own.seen = self.base.raw[number]
            if source in self._reading.read:
                self._reading.note(source)
            self._reading.budget.spend(source, choice.cost, choice.switched)
        if self._is_stale and not self.is_steady and all(map(self.base.has_rows, self.sources)):  # all have been seen
            self._steady.anchor(choices)
        return choices

    def _stay_or_choose(
        self, sampler: Sampler | None, sampling_seconds: float, due: Sequence[str] | None
    ) -> dict[str, PlanChoice]:
        """The choices of a batch. The memo is refreshed only where statistics were read, or plans are sampled. ``due`` are the sources of
        these, if that is known already."""
        in_place: list[PricedPlan] = []
        if self._reading.read or due:
            self.memo.refresh()
        else:
            in_place = self._selection.in_place()
        if due is None:
            costs = {priced.source: priced.cost for priced in in_place} or {
                source: self._selection.selected_cost(source, stays=source not in self._reading.read) for source in self.sources
            }
            due = self._due_at(sampler, sampling_seconds, costs)
        if sampler is not None and due:
            self.memo.refresh()
            self._sampling.sample(sampler, due)
        self._is_stale = bool(in_place) and not due
        if self._is_stale:
            return self._selection.stay(in_place)
        before = {source: own.expected for source, own in self._plans.items()}
        choices = self._choices(sampler is not None, self._reading.read | {*due})
        for source in due:
            self._budget.note(source, not choices[source].switched)
        doubtful = [s for s, choice in choices.items() if choice.switched and s not in due and choice.cost >= sampling_seconds]
        if sampler is not None and self._is_sampled and doubtful:
            # observations of other plans decay: one that was given up for its rows would be tried again with a whole delta
            self._sampling.sample(sampler, doubtful)
            for source in doubtful:
                own = self._plans[source]
                own.expected = before[source]  # reasons compare with the batch before
                self._budget.start(source)
                choices[source] = self._choose_again(source)
        return choices

    def _choose_again(self, source: str) -> PlanChoice:
        """The choice of the cheapest plan, from a sample, in place of the last one."""
        self._plans[source].take_back()
        return self._selection.choice(source, sampled=True, plan=self._selection.cheapest(source))

    def _due_at(self, sampler: Sampler | None, seconds: float, costs: Mapping[str, float]) -> Sequence[str]:
        """The sources whose plans are to be sampled for this batch, where they cost that much; to be asked once per batch."""
        return self._sampling.due(seconds, costs) if sampler is not None and self._is_sampled else ()

    @property
    def _is_sampled(self) -> bool:
        """Whether there are plans to choose from."""
        return self.mode == "adaptive" and len(self.graph.relations) > 2

    def has_read(self, source: str) -> bool:
        """Whether the statistics of a source were read for the last choice."""
        return source in self._reading.read

    def last_choice(self, source: str) -> PlanChoice | None:
        """The last choice of a source, priced once more after a restart; None if it has no plan."""
        own = self._plans[source]
        if own.choice is None and own.current is not None:
            own.choice = self._selection.stay(self._selection.in_place())[source]
        return own.choice

    def _choices(self, sampled: bool, planned: Collection[str]) -> dict[str, PlanChoice]:
        """A choice for each source; the plans of those that are not ``planned`` stay."""
        return {source: self._selection.choice(source, sampled, stays=source not in planned) for source in self.sources}

    def replan(
        self, source: str, plan: Plan, rows: Sequence[float | None], sampler: Sampler | None, statistics: Mapping[str, Statistics]
    ) -> PlanChoice:
        """The plan for a delta that was stopped: the cheapest one under what its operators gave before (None: not known).

        ``plan`` is the stopped one. Its estimates were false, so plans are sampled whatever the budget is, and the ``statistics`` of the
        source are read unless they have been for this batch. The choice replaces the last one: it is compared with the plan of the batch
        before, and what was seen and sampled is part of the next :meth:`observe`. Not with greedy search, which corrects no estimates.
        """
        assert self._corrections is not None
        self._steady.end()
        own = self._plans[source]
        covered = [self.graph.set_of(step.covers) for step in planning.operators(plan, self.graph)]
        seen = {relations: n for relations, n in zip(covered, rows, strict=True) if n is not None}
        own.stopped |= seen
        self._reading.budget.doubt(source)
        if source not in self._reading.read:
            for each in self._plans.values():
                each.changed = {}
            others = [other for other in self.sources if other != source]
            self.memo.refresh(self.base.read(statistics, None, self._reading.as_read(others, statistics)))
            own.seen = self.base.raw[self.sources.index(source)]
            self._reading.note(source)
        self._corrections.correct_delta(source, seen.items())
        self.memo.refresh()
        if sampler is not None:
            self._sampling.until_cheapest(sampler, [source], self._selection.cheapest)
            own.stopped |= self._corrections.sampled_rows(source)
        own.choice = self._choose_again(source)
        self._reading.budget.spend(source, own.choice.cost, own.choice.switched)
        return own.choice

    @property
    def filter_order(self) -> tuple[str, ...]:
        """All filters in the order in which those at one place are evaluated."""
        return self._selection.filter_order

    def set_filter_weights(self, weights: Mapping[str, float]) -> None:
        """Sets measured weights of some filters. Their declared weights have decided which filters are operators; that stays."""
        before = self._selection.weights
        self._selection.weights = {name: weights.get(name, known) for name, known in before.items()}
        if self._selection.weights == before:
            return
        self._steady.end()
        for memo in {id(own.memo): own.memo for own in self._plans.values()}.values():
            memo.set_filter_weights(self._selection.weights)

    def alternatives(self, source: str, k: int = 10) -> list[Ranked]:
        """The ``k`` cheapest retained plans of a delta source under the last statistics, cheapest first."""
        return list(islice(plan_extraction.ranked(self._settled(source), source), k))

    def validity(self, source: str) -> tuple[ValidityRange, ...]:
        """The validity ranges of the current plan of a delta source; none if plans are kept at any cost, or were found greedily."""
        own = self._plans[source]
        if self.fallback or self.mode != "adaptive" or own.current is None:
            return ()
        return validity_ranges(self._settled(source), source, own.current)

    def read_selectivities(self, statistics: Mapping[str, Statistics]) -> None:
        """Reads what the filters kept in the batch. To be called before :meth:`observe`: the part of an error that they explain is no error
        of the joins, and would be corrected twice otherwise."""
        if self._corrections is None or not self._feedback or not self.base.filter_keys:
            return
        if not self._steady.may_last or not self._steady.keep_filters(statistics):
            self._steady.end()
            self.memo.postpone(self.base.read(statistics, self.base.filter_keys))

    def observe(self, source: str, rows: Sequence[float | None]) -> None:
        """Takes the rows that the operators of the source's last plan produced, in their order (None: not counted).

        With ``feedback=True`` they correct later estimates, unless the block is planned greedily; otherwise they have no effect.
        """
        if not self._feedback:
            return
        own = self._plans[source]
        assert own.priced is not None
        now = {step: n for step, n in zip(own.priced.covered, rows, strict=True) if n is not None}
        own.observed = [*(own.stopped | now).items()]
        if own.note_if_steady(now, PRICING_SECONDS * len(self.sources)):
            return
        self._steady.end()
        expected = {relations: own.estimated[relations][0] for relations in now}
        own.confirmed = {relations: seen for relations, seen in now.items() if not is_surprising(expected[relations], seen)}
        if self._reading.budget.observe(source, [(expected[relations], seen) for relations, seen in now.items()]):
            self._budget.reset_budget(source)
        if self._corrections is not None:
            self._corrections.observe(source, own.unscaled(own.observed), own.stopped)

    def hindsight(self, stopped: Mapping[str, Stopped] | None = None) -> dict[str, Hindsight]:
        """For each source whose operators were observed since the last choice: the cost of its plan, with that of the ``stopped`` plans
        before it, and of other plans. In a steady batch they are those of the rows that the plans were priced with."""
        if self._corrections is None:
            return {}
        priced = {source: own.priced for source, own in self._plans.items() if own.priced is not None}
        observed = {source: self._plans[source].unscaled(self._plans[source].observed) for source in priced}
        self._is_stale = True  # the memo will have been priced with them
        first = {source: own.first for source, own in self._plans.items()}
        return hindsight(priced, self._corrections, observed, stopped or {}, first)

    def price_of(self, source: str, plan: Plan) -> tuple[float, list[float]] | None:
        """The cost of any plan and the estimated rows of its operators, under the statistics of the last choice; None if the memo does not
        have its joins."""
        memo = self._settled(source)
        if cost_of(memo, source, plan) is None:
            return None
        found = PricedPlan.of(memo, source, plan, ())
        return found.cost, found.rows()[0]

    def observed_price_of(self, source: str, plan: Plan) -> tuple[float, list[float]] | None:
        """:meth:`price_of` under the rows that were observed since the last choice; None if there are none. In a steady batch the cost is
        that of the rows that the plans were priced with, as in :meth:`hindsight`."""
        own = self._plans[source]
        if self._corrections is None or not own.observed:
            return None
        self._corrections.assume_observed({source: own.unscaled(own.observed)})
        found = self.price_of(source, plan)
        self._corrections.forget_assumed([source])
        self._is_stale = True
        if found is None or not own.changed:
            return found
        scales = scales_of(planning.operators(plan, self.graph), own.changed)
        return found[0], [rows * scale for rows, scale in zip(found[1], scales, strict=True)]

    def greatest_cost(self, source: str) -> float:
        """The cost of the most expensive retained join order under the statistics of the last choice."""
        return plan_extraction.most_expensive(self._settled(source), source).cost

    def _settled(self, source: str) -> Memo:
        """The memo of a source, refreshed: if it was not for the last choice, with what has been observed since."""
        if self._is_stale:
            self._is_stale = False
            self.memo.refresh()
        return self._plans[source].memo

    # ------------------------------------------------------------------ other designs of the block
    def price(self, statistics: Mapping[str, Statistics], observed: Mapping[str, ObservedRows] | None = None) -> float | None:
        """The total cost of the cheapest plans of all sources, without choosing them; None if there are too many pairs to search.

        ``observed`` has observed rows, by source; they replace the estimates of these sets.
        """
        if self._corrections is None:
            return None
        if not self.sources:
            return 0.0
        self._steady.end()
        moved = self.base.read(statistics)
        self._corrections.assume(observed or {})
        self.memo.refresh(moved)
        return sum(plan_extraction.cheapest_cost(self.memo, source) for source in self.sources)

    def observed_cardinalities(self, source: str, *, sampled: bool = True) -> ObservedRows:
        """The observed (or last sampled, if ``sampled``) rows of sets of relations, by the names of these."""
        return {} if self._corrections is None else self._corrections.cardinalities(source, sampled=sampled)

    def seed_feedback(self, observed: Mapping[str, ObservedRows]) -> None:
        """Starts with rows that were observed under another design. The optimizer must have read statistics and observed nothing."""
        self._steady.end()
        if self._corrections is not None:
            self._corrections.seed_feedback(observed)

    # ------------------------------------------------------------------ a restart
    def state(self) -> dict[str, State]:
        """What a checkpoint keeps of each source that has a plan."""
        return {
            source: own.state(
                [] if self._corrections is None else self._corrections.state(source),
                self._budget.since.get(source),
                self._selection.switching.saved.get(source, 0.0),
                self._reading.budget.last.get(source),
                self._budget.confirmations.get(source, 0),
            )
            for source, own in self._plans.items()
            if own.current is not None
        }

    def resume(self, state: Mapping[str, State]) -> None:
        """Continues from the :meth:`state` of an optimizer of the same block; a plan that this memo does not have is dropped, and so is the
        state of another query graph, in which other filters are operators."""
        for source, found in state.items():
            own, known = self._plans[source], State(*found)
            if len(known.seen) != len(self.base.keys):
                continue
            own.resume(known)
            self._selection.switching.saved[source] = known.saved
            if known.sampled is not None:
                self._budget.since[source] = known.sampled
                self._budget.confirmations[source] = known.confirmations
            if isinstance(known.reading, Sequence) and len(known.reading) == len(Reading._fields):
                self._reading.budget.last[source] = Reading(*known.reading)
            if self._corrections is not None:
                self._corrections.resume(source, known.feedback)
            plan = parse_plan(known.plan)
            if self.fallback or cost_of(own.memo, source, plan) is not None:
                own.current, own.seen = plan, np.array(known.seen, np.float64)
                if known.kept and self.mode == "static":
                    own.kept = plan
            else:
                own.steady = None
        if not self.fallback:  # the statistics that were read last
            rows = zip(self._plans.values(), self.base.raw)
            self.memo.refresh(self.base.replace(np.array([raw if own.seen is None else own.seen for own, raw in rows])))
