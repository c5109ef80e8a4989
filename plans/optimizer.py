"""The optimizer: one plan for each delta source, chosen again whenever the statistics have moved.

``adaptive`` takes the cheapest plan. A switch moves no state (DESIGN §4.3), so it costs nothing; only a near tie keeps the current plan, so
that plans of equal cost do not alternate. ``static`` does what a database does: it keeps the cheapest plan as of the first elements.
``first`` joins in the order written, ``heuristic`` by the ranks of the graph's relations, ``worst`` takes the most expensive retained join
order, and given plans are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans import plan as planning
from cqels_opt.plans import plan_extraction
from cqels_opt.plans.base_estimates import Assumptions, BaseEstimates
from cqels_opt.plans.bounded_choice import LIMITED_FROM, least_risky, limit_estimates
from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.cost import Constants, CostModel
from cqels_opt.plans.cost_models import model_named
from cqels_opt.plans.dpccp import PAIR_BUDGET, Pair
from cqels_opt.plans.estimate_corrections import EstimateCorrections, Learnt, Logs
from cqels_opt.plans.greedy import GreedySearch
from cqels_opt.plans.hindsight import Hindsight, Observed, Stopped, hindsight
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan, PlanError
from cqels_opt.plans.plan_changes import Reason, corrected, reasons
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.plan_pricing import PricedPlan, cost_of
from cqels_opt.plans.plan_text import parse_plan
from cqels_opt.plans.predicate_placement import Placing, filter_order, operators_among
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.reoptimization_budget import ReoptimizationBudget, is_surprising
from cqels_opt.plans.sampling import SAMPLING_ROUNDS, Sampler
from cqels_opt.plans.size_bounds import SizeBounds
from cqels_opt.plans.statistics import Key, Statistics
from cqels_opt.plans.switching_rule import NEAR_TIE, SwitchingRule
from cqels_opt.plans.validity_ranges import ValidityRange, validity_ranges

State: TypeAlias = "tuple[str, list[float], bool, Logs, list[tuple[RelationSet, float, float]], list[str], float | None, float]"
"""What a checkpoint keeps of one delta source; :meth:`Optimizer.state` lists the parts."""

MODES = ("adaptive", "static", "first", "worst", "heuristic")

FORMER = 3
"""The number of plans chosen before that are priced again with every batch, for the trace."""


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
        assumptions: Assumptions | None = None,
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
        self._weights = graph.weights
        self.mode = mode if isinstance(mode, str) else "fixed"
        self._kept = planning.plans_of_mode(mode, graph, self.sources)
        self._current: dict[str, Plan] = {}
        self._choices: dict[str, PlanChoice] = {}  # of the last batch
        self._priced: dict[str, PricedPlan] = {}  # the current plans
        self._former: dict[str, tuple[Plan, ...]] = {}
        self._first: dict[str, Plan] = {}
        self._seen: dict[str, NDArray[np.float64]] = {}
        self._estimated: dict[str, dict[RelationSet, tuple[float, float]]] = {}
        self._observed: dict[str, Observed] = {}  # since the last choice
        self._before: dict[str, tuple[Plan | None, tuple[Plan, ...]]] = {}  # the plans before the last choice, and former ones
        self._stopped: dict[str, dict[RelationSet, float]] = {}  # rows before deltas were stopped, since the last choice
        self._feedback = feedback
        self._bounds: Mapping[str, SizeBounds] = {}  # of the last batch
        self._pace = ReoptimizationBudget()
        self._switching = SwitchingRule()
        self.leaves = BaseEstimates(graph, self.sources, assumptions)
        self.fallback = pairs is None
        self._stays: Mapping[str, Plan] = {}  # greedy plans of earlier batches that are not searched again
        self.priced = 0  # joins, by greedy searches
        self._memos: dict[str, Memo] = {}  # the same for all sources; with greedy search one for each
        self._corrections: EstimateCorrections | None = None  # with greedy search nothing is corrected
        estimator = Estimator(self.leaves)
        if self.fallback:
            self._memos = {source: Memo(estimator, self._kept_pairs(source), self.model, [source]) for source in self.sources}
        else:
            kept = [pair for source in self.sources for pair in self._kept_pairs(source)]
            memo = Memo(estimator, [*(pairs or []), *kept], self.model)
            self._memos = dict.fromkeys(self.sources, memo)
            self._corrections = EstimateCorrections(memo, self.sources, feedback)

    @property
    def memo(self) -> Memo:
        """The alternatives of all sources, as of the last choice; with greedy search those of the first source."""
        return self._memos[self.sources[0]]

    @property
    def current(self) -> Mapping[str, Plan]:
        """The last chosen plan of each source."""
        return self._current

    def choose(
        self,
        statistics: Mapping[str, Statistics],
        changed: Collection[Key] | None = None,
        sampler: Sampler | None = None,
        sampling_seconds: float = 0.0,
        bounds: Mapping[str, SizeBounds] | None = None,
    ) -> dict[str, PlanChoice]:
        """The plan of every delta source under the given statistics of each. ``bounds`` are upper bounds of the rows of its joins.

        ``changed`` may name the only statistics that can have moved since the last call; otherwise all are read. Only
        alternatives that depend on a changed statistic are priced again. ``sampler`` runs the cheapest plan on a sample of the delta;
        the counted rows correct the estimates for this delta (without feedback, until the next sample), and the search is repeated until
        its result has been sampled
        (sampling-based re-optimization, Wu, Naughton & Singh 2016). ``sampling_seconds`` is the cost of sampling a plan, in the cost
        model's unit: plans are sampled again once they have cost a multiple of it (:class:`ReoptimizationBudget`), or after surprising
        row counts. A greedy search takes about as long as sampling a plan, and runs as often.
        """
        if not self.sources:
            return {}
        self._bounds = bounds or {}
        for priced in self._priced.values():  # from the bounds of the last batch, which a restart does not know
            priced.limit(None)
        moved = self.leaves.read(statistics, changed if self._current else None)
        self._observed.clear()
        self._stopped.clear()
        self._before = {source: (self._current.get(source), self._former.get(source, ())) for source in self.sources}
        if self._corrections is None:
            self._plan_greedily(moved, sampling_seconds)
        else:
            self._corrections.expire_samples()
            self.memo.refresh(moved)
            if sampler is not None and self.mode == "adaptive" and len(self.graph.relations) > 2:
                self._sample_plans(self._corrections, sampler, sampling_seconds)
        for number, source in enumerate(self.sources):
            choice = self._choices[source] = self._choice(source, sampler is not None)
            if choice.switched or source not in self._seen or self._has_rows(source):
                self._seen[source] = self.leaves.raw[number]
        return dict(self._choices)

    def replan(self, source: str, plan: Plan, rows: Sequence[float | None], sampler: Sampler | None) -> PlanChoice:
        """The plan for a delta that was stopped: the cheapest one under what its operators gave before (None: not known).

        ``plan`` is the stopped one. Its estimates were false, so plans are sampled whatever the budget is. The choice replaces the last
        one: it is compared with the plan of the batch before, and what was seen and sampled is part of the next :meth:`observe`. Not
        with greedy search, which corrects no estimates.
        """
        assert self._corrections is not None
        covered = [self.graph.set_of(step.covers) for step in planning.operators(plan, self.graph)]
        seen = {relations: n for relations, n in zip(covered, rows, strict=True) if n is not None}
        self._stopped.setdefault(source, {}).update(seen)
        self._corrections.correct_delta(source, seen.items())
        self.memo.refresh(np.zeros_like(self.leaves.factors, bool))
        if sampler is not None:
            self._sample_until_cheapest(self._corrections, sampler, [source], self._cheapest)
            self._stopped[source] |= self._corrections.sampled_rows(source)
        before, self._former[source] = self._before[source]
        if before is not None:
            self._current[source] = before
        else:
            del self._current[source], self._first[source]
        found = self._cheapest(source)
        choice = self._choices[source] = self._choice(source, sampled=True, plan=found)
        return choice

    @property
    def filter_order(self) -> tuple[str, ...]:
        """All filters in the order in which those at one place are evaluated."""
        return filter_order(self.leaves, self._weights)

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Sets measured weights of some filters. Their declared weights have decided which filters are operators; that stays."""
        self._weights = {name: weights.get(name, known) for name, known in self._weights.items()}
        for memo in {id(memo): memo for memo in self._memos.values()}.values():
            memo.weigh(self._weights)

    def alternatives(self, source: str, k: int = 10) -> list[Ranked]:
        """The ``k`` cheapest retained plans of a delta source under the last statistics, cheapest first."""
        return list(islice(plan_extraction.ranked(self._memos[source], source), k))

    def validity(self, source: str) -> tuple[ValidityRange, ...]:
        """The validity ranges of the current plan of a delta source; none if plans are kept at any cost, or were found greedily."""
        if self.fallback or self.mode != "adaptive":
            return ()
        return validity_ranges(self._memos[source], source, self._current[source], NEAR_TIE)

    def _sample_plans(self, corrections: EstimateCorrections, sampler: Sampler, sampling_seconds: float) -> None:
        """Samples the cheapest plans whose budget allows it, with estimates corrected on the way, until the cheapest has been sampled."""
        moving = [source for source in self.sources if self._has_rows(source)]
        due = [source for source in moving if self._pace.due(source, self._selected_cost(source), sampling_seconds)]
        for source in due:
            corrections.start_sample(source)
        if due:
            self._sample_until_cheapest(corrections, sampler, due, lambda s: self._select(s, self._best(s)).plan)

    def _best(self, source: str) -> Ranked:
        return plan_extraction.cheapest(self._memos[source], source)

    def _cheapest(self, source: str) -> Plan:
        """The cheapest plan, or the current one if that costs as much."""
        best, current = self._best(source), self._current.get(source)
        return current if current is not None and self._cost(source, current) <= best.cost * (1 + NEAR_TIE) else best.plan

    def _sample_until_cheapest(
        self, corrections: EstimateCorrections, sampler: Sampler, due: Sequence[str], select: Callable[[str], Plan]
    ) -> None:
        """Samples the plan that ``select`` takes for each source, and corrects the estimates, until it has been sampled."""
        nothing = np.zeros_like(self.leaves.factors, bool)
        walked: set[tuple[str, str]] = set()
        for _ in range(SAMPLING_ROUNDS):
            before = len(walked)
            for source in due:
                plan = select(source)
                if (source, str(plan)) not in walked:
                    walked.add((source, str(plan)))
                    covered = [self.graph.set_of(step.covers) for step in planning.operators(plan, self.graph)]
                    corrections.add_sample(source, zip(covered, sampler(source, plan), strict=True))
            if len(walked) == before:
                return
            self.memo.refresh(nothing)

    def observe(self, source: str, rows: Sequence[float | None]) -> None:
        """Takes the rows that the operators of the source's last plan produced, in their order (None: not counted).

        With ``feedback=True`` they correct later estimates, unless the block is planned greedily; otherwise they have no effect.
        """
        if not self._feedback:
            return
        covered = self._priced[source].covered
        now = {step: n for step, n in zip(covered, rows, strict=True) if n is not None}
        stopped = self._stopped.get(source, {})
        given = self._observed[source] = [*(stopped | now).items()]
        if any(is_surprising(self._estimated[source][relations][0], seen) for relations, seen in now.items()):
            self._pace.reset_budget(source)
        if self._corrections is not None:
            self._corrections.observe(source, given, stopped)

    def regret(self, source: str) -> float | None:
        """The cost of the source's plan less that of the plan before the last switch, under the statistics of the last choice and the rows
        observed since; None if there is no such plan."""
        priced = self._priced.get(source)
        if priced is None or not priced.former:
            return None
        priced.memo.refresh(np.zeros_like(self.leaves.factors, bool))
        return priced.cost - priced.former[0][1].cost(priced.memo)

    def hindsight(self, stopped: Mapping[str, Stopped] | None = None) -> dict[str, Hindsight]:
        """For each source whose operators were observed since the last choice: the cost of its plan, with that of the ``stopped`` plans
        before it, and of the cheapest retained one."""
        return {} if self._corrections is None else hindsight(self._priced, self._corrections, self._observed, stopped or {})

    def price_of(self, source: str, plan: Plan) -> tuple[float, list[float]] | None:
        """The cost of any plan and the estimated rows of its operators, under the statistics of the last choice; None if the memo does not
        have its joins."""
        memo = self._memos[source]
        if cost_of(memo, source, plan) is None:
            return None
        found = PricedPlan.of(memo, source, plan, ())
        return found.cost, found.rows()[0]

    def observed_price_of(self, source: str, plan: Plan) -> tuple[float, list[float]] | None:
        """:meth:`price_of` with the rows that were observed since; None also if observed rows do not correct estimates."""
        if self._corrections is None or source not in self._priced:
            return None
        self._priced[source].memo.refresh(np.zeros_like(self.leaves.factors, bool))
        return self.price_of(source, plan)

    def greatest_cost(self, source: str) -> float:
        """The cost of the most expensive retained join order under the statistics of the last choice."""
        return plan_extraction.most_expensive(self._memos[source], source).cost

    # ------------------------------------------------------------------ other designs of the block
    def price(self, statistics: Mapping[str, Statistics], learnt: Mapping[str, Learnt] | None = None) -> float | None:
        """The total cost of the cheapest plans of all sources, without choosing them; None if there are too many pairs to search.

        ``learnt`` has observed rows, by source; they replace the estimates of these sets.
        """
        if self._corrections is None:
            return None
        if not self.sources:
            return 0.0
        moved = self.leaves.read(statistics)
        self._corrections.assume(learnt or {})
        self.memo.refresh(moved)
        return sum(plan_extraction.cheapest_cost(self._memos[source], source) for source in self.sources)

    def observed_cardinalities(self, source: str, *, sampled: bool = True) -> Learnt:
        """The observed (or last sampled, if ``sampled``) rows of sets of relations, by the names of these."""
        return {} if self._corrections is None else self._corrections.cardinalities(source, sampled=sampled)

    def seed_feedback(self, learnt: Mapping[str, Learnt]) -> None:
        """Starts with rows that were observed under another design. The optimizer must have read statistics and observed nothing."""
        if self._corrections is not None:
            self._corrections.seed_feedback(learnt)

    # ------------------------------------------------------------------ a restart
    def state(self) -> dict[str, State]:
        """For each source: its plan, the statistics that the plan was chosen from (NaN: not observed), whether it is kept, feedback (or the
        last sample), estimates, former plans, the cost of plans since they were last sampled (None: never), and the savings so far of a
        switch."""
        return {
            source: (
                str(plan),
                self._seen[source].tolist(),
                source in self._kept,
                [] if self._corrections is None else self._corrections.state(source),
                [(relations, *found) for relations, found in self._estimated.get(source, {}).items()],
                [str(former) for former in self._former.get(source, ())],
                self._pace.since.get(source),
                self._switching.saved.get(source, 0.0),
            )
            for source, plan in self._current.items()
        }

    def resume(self, state: Mapping[str, State]) -> None:
        """Continues from the :meth:`state` of an optimizer of the same block; a plan that this memo does not have is dropped."""
        for source, found in state.items():
            text, seen, kept, learnt, estimated = found[:5]
            # older checkpoints have five parts
            former, since, self._switching.saved[source] = found[5:] if len(found) == 8 else ([], None, 0.0)
            self._former[source] = tuple(map(parse_plan, former))
            if former:
                self._first[source] = self._former[source][-1]
            if since is not None:
                self._pace.since[source] = since
            self._estimated[source] = {relations: (rows, factor) for relations, rows, factor in estimated}
            if self._corrections is not None:
                self._corrections.resume(source, learnt)
            plan = parse_plan(text)
            if self.fallback or cost_of(self._memos[source], source, plan) is not None:
                self._current[source], self._seen[source] = plan, np.array(seen, np.float64)
                if kept and self.mode == "static":
                    self._kept[source] = plan

    def _choice(self, source: str, sampled: bool, plan: Plan | None = None) -> PlanChoice:
        """The choice of a ``plan``, or of the one that :meth:`_plan` takes."""
        memo, before, last = self._memos[source], self._current.get(source), self._choices.get(source)
        if before is not None:
            limit_estimates(self._priced_at(source, before), self._bounds.get(source), LIMITED_FROM)
        plan = plan or self._plan(source)
        self._first.setdefault(source, plan if before is None else before)
        previous = None if before == plan else before
        reason: tuple[Reason, ...] = ()
        if previous is not None:
            reason = reasons(memo, source, previous, plan, self._seen[source])
            reason += corrected(memo, source, self._estimated.get(source, {}))
            others = (other for other in self._former.get(source, ()) if other not in (previous, plan))
            former, first = (previous, *others)[:FORMER], self._first[source]
            self._former[source] = former if first == plan or first in former else (*former, first)
        priced = self._priced_at(source, plan)
        if plan != before:
            self._current[source], last = plan, None
            limit_estimates(priced, self._bounds.get(source), LIMITED_FROM if sampled else 0.0)
        return PlanChoice(
            source,
            plan,
            priced.cost,
            priced.operators,
            self._filters_of(priced, last.filters if last else ()),
            self._estimate(source, priced),
            priced.cheapest_other(),
            previous,
            reason,
            self.leaves.assumed(source),
            memo.retained(source),
            self.fallback,
            priced.former_costs(),
        )

    def _priced_at(self, source: str, plan: Plan) -> PricedPlan:
        """A plan at its places in the source's memo."""
        memo, priced = self._memos[source], self._priced.get(source)
        if priced is None or priced.memo is not memo or priced.plan != plan:
            priced = self._priced[source] = PricedPlan.of(memo, source, plan, self._former.get(source, ()))
        return priced

    def _plan(self, source: str) -> Plan:
        """The plan to use: the current one, unless another is worth a switch. To be called once per batch."""
        current, memo = self._current.get(source), self._memos[source]
        if current is not None and self.mode == "adaptive" and source not in self._stays:
            cost, least = self._current_cost(source, current), plan_extraction.cheapest_cost(memo, source)
            if not self._switching.is_due(source, cost, least):
                return current
        return self._select(source, plan_extraction.cheapest(memo, source)).plan

    def _filters_of(self, priced: PricedPlan, last: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        """The filters that each operator of a plan evaluates, in their order; the ``last`` ones if there is no choice of order."""
        if last and all(len(names) < 2 for names in last):
            return last
        order = self.filter_order
        return tuple(tuple(name for name in order if name in names) for names in planning.filters(priced.plan, self.graph))

    def _estimate(self, source: str, priced: PricedPlan) -> tuple[float, ...]:
        """The estimated rows after each operator. They are kept with the factors of their corrections."""
        rows, factors = priced.rows()
        self._estimated[source] = dict(zip(priced.covered, zip(rows, factors)))
        return tuple(rows)

    def _select(self, source: str, best: Ranked) -> Ranked:
        if (stays := self._kept.get(source) or self._stays.get(source)) is not None:
            return Ranked(stays, self._cost(source, stays))
        if self.mode == "worst":
            return plan_extraction.most_expensive(self._memos[source], source)
        if self.mode == "static" and self._has_rows(source):
            self._kept[source] = best.plan
        current = self._current.get(source)
        if self.mode != "adaptive" or current == best.plan:
            return best
        if current is not None and (cost := self._cost(source, current)) <= best.cost * (1 + NEAR_TIE):
            return Ranked(current, cost)
        return least_risky(self._memos[source], source, best, self._bounds.get(source))

    def _selected_cost(self, source: str) -> float:
        """The cost of the plan that :meth:`_select` takes in adaptive mode."""
        least, current = plan_extraction.cheapest_cost(self.memo, source), self._current.get(source)
        if current is not None and (cost := self._current_cost(source, current)) <= least * (1 + NEAR_TIE):
            return cost
        return least

    def _current_cost(self, source: str, current: Plan) -> float:
        priced, memo = self._priced.get(source), self._memos[source]
        return priced.cost if priced is not None and priced.memo is memo else self._cost(source, current)

    def _cost(self, source: str, plan: Plan) -> float:
        if (cost := cost_of(self._memos[source], source, plan)) is None:
            raise PlanError(f"plan of {source}: the memo has no such joins: {plan}")
        return cost

    def _has_rows(self, source: str) -> bool:
        """Whether rows of the source's delta have been observed."""
        return bool(self.leaves.raw[self.sources.index(source), self.graph.index[source]] > 0)

    def _kept_pairs(self, source: str) -> Iterator[Pair]:
        """The pairs of the plans that the memo of a source must have at any cost."""
        for plan in (self._kept.get(source), self._current.get(source)):
            if plan is not None:
                yield from planning.pairs_with_builds(plan, self.graph)

    def _plan_greedily(self, moved: NDArray[np.bool_], sampling_seconds: float) -> None:
        """Searches greedy trees for the sources without a plan, and for those whose budget allows it; the others keep their plans."""
        estimator = Estimator(self.leaves)
        costs: dict[str, float] = {}
        for memo in self._memos.values():
            memo.refresh(moved)
        for source, plan in self._current.items():
            if cost_of(self._memos[source], source, plan) is None:  # after a restart the memo has no joins
                self._memos[source] = self._greedy_memo(estimator, source, ())
            costs[source] = self._cost(source, plan)
        free = [source for source in self.sources if source not in self._kept]
        due = [s for s in free if s not in costs or self.mode != "adaptive" or self._pace.due(s, costs[s], sampling_seconds)]
        search = GreedySearch(estimator)
        for source in due:
            self._memos[source] = self._greedy_memo(estimator, source, search.pairs(self.sources.index(source)))
        self.priced += search.candidates
        self._stays = {source: plan for source, plan in self._current.items() if source not in due}

    def _greedy_memo(self, estimator: Estimator, source: str, found: Iterable[Pair]) -> Memo:
        memo = Memo(estimator, [*found, *self._kept_pairs(source)], self.model, [source])
        memo.weigh(self._weights)
        return memo
