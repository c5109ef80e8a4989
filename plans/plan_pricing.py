"""A plan priced at its places in a memo: its cost, the rows of its operators and its runner-up, without a search.

Trees of plans are made and compared only when a plan is chosen. As long as it stays, a batch reads the memo at these places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isinf
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans import plan as planning
from cqels_opt.plans import plan_extraction
from cqels_opt.plans.cost import JoinOperator
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Join, Multiway, Plan, PlanOperator, Probe, Scan, right_side
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.size_bounds import SizeBounds


class JoinPlace(NamedTuple):
    """A join of a plan: its node, its ``alternatives`` in the memo, and the places of its sides' costs.

    ``alternatives`` has each operator that can do the join, and whether it scans the right side; none if the join is free. ``others`` are
    the alternatives of the node with other sides. A side is a leaf's node, or −1 − the position of a join among those of the plan.
    """

    node: int
    alternatives: tuple[tuple[int, bool], ...]
    others: NDArray[np.intp]
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class PlanPlaces:
    """The places of a plan in a memo. ``joins`` has the inputs of each join before it, and ``order`` their positions from the root on;
    ``alternatives`` are those of all joins."""

    root: int
    joins: tuple[JoinPlace, ...]
    order: tuple[int, ...]
    alternatives: NDArray[np.intp]

    def cost(self, memo: Memo) -> float:
        """The cost of the plan, each join by its cheapest operator."""
        costs: list[float] = []
        phi, psi = memo.phi, memo.psi
        for join in self.joins:
            left = costs[-1 - join.left] if join.left < 0 else float(psi[join.left])
            right = costs[-1 - join.right] if join.right < 0 else float(psi[join.right])
            prices = [float(phi[at]) + left + (right if scanned else 0.0) for at, scanned in join.alternatives]
            costs.append(min(prices, default=0.0))
        return costs[-1 - self.root] if self.root < 0 else float(psi[self.root])

    def is_cheapest(self, memo: Memo, but: int | None = None) -> bool:
        """Whether the plan is the one that :func:`plan_extraction.cheapest` would make, except for the alternative ``but`` of a node."""
        for join in self.joins:
            if join.alternatives and all(at != but for at, _ in join.alternatives):
                span = memo.shape.alternatives_of(join.node)
                first = span.start + int(memo.total[span].argmin())
                if all(first != at for at, _ in join.alternatives):
                    return False
        return True

    def second_best(self, memo: Memo) -> tuple[int, int, float] | None:
        """Of the cheapest plan, the node and the alternative that make it the runner-up, and the difference of the costs."""
        best: tuple[int, int, float] | None = None
        for join in map(self.joins.__getitem__, self.order):
            if join.alternatives and len(join.others):
                totals = memo.total[join.others]
                second = int(totals.argmin())
                gap = float(totals[second]) - min(float(memo.total[at]) for at, _ in join.alternatives)
                if np.isfinite(gap) and (best is None or gap < best[2]):
                    best = join.node, int(join.others[second]), gap
        return best


def places_of(memo: Memo, source: str, plan: Plan) -> PlanPlaces | None:
    """The places of a plan in a memo; None if the memo lacks one of its joins."""
    shape, graph, found = memo.shape, memo.graph, memo.shape.alternatives
    number = shape.sources.index(source)
    joins: list[JoinPlace] = []

    def right(part: Probe | Join | Multiway) -> tuple[RelationSet, int, tuple[int, ...]] | None:
        """The same for what a join adds; the relations of a multiway join are probed and not joined with each other first."""
        if not isinstance(part, Multiway):
            return place(right_side(part))
        relations = graph.set_of(part.relations)
        node = shape.node_of.get((number, relations))
        return None if node is None else (relations, node, ())

    def place(part: Plan) -> tuple[RelationSet, int, tuple[int, ...]] | None:
        """The relations of a part, the place of its cost, and the positions of its joins from its root on."""
        if isinstance(part, Scan):
            relations = 1 << graph.index[part.relation]
            return relations, shape.node_of[number, relations], ()
        left, added = place(part.input), right(part)
        if left is None or added is None or (node := shape.node_of.get((number, left[0] | added[0]))) is None:
            return None
        alternatives: tuple[tuple[int, bool], ...] = ()
        others = np.empty(0, np.intp)
        if not shape.free[node]:
            span = shape.alternatives_of(node)
            same = found.right_set[span] == shape.node_of[number, added[0]]
            multiway = (found.operator[span] == JoinOperator.MULTIWAY) == isinstance(part, Multiway)
            here = span.start + np.flatnonzero(same & multiway)
            if not len(here):
                return None
            alternatives = tuple((at, bool(found.right[at] != shape.null)) for at in here.tolist())
            others = span.start + np.flatnonzero(found.pair[span] != found.pair[here[0]])
        joins.append(JoinPlace(node, alternatives, others, left[1], added[1]))
        return left[0] | added[0], -len(joins), (len(joins) - 1, *left[2], *added[2])

    placed = place(plan)
    if placed is None:
        return None
    every = np.array([at for join in joins for at, _ in join.alternatives], np.intp)
    return PlanPlaces(placed[1], tuple(joins), placed[2], every)


def cost_of(memo: Memo, source: str, plan: Plan) -> float | None:
    """The current cost of a plan, each join by its cheapest operator; None if the memo lacks one of its joins."""
    places = places_of(memo, source, plan)
    return None if places is None else places.cost(memo)


@dataclass(slots=True)
class PricedPlan:
    """The plan of a delta source, with everything that pricing it for the next batch needs.

    ``covered`` are the relations after each operator, and ``states`` their places in the table of rows. ``former`` are plans of earlier
    batches. ``second`` is the last runner-up: its alternative at the node where it differs (None: it was the cheapest plan), its plan and
    the places of this.
    """

    memo: Memo
    source: str
    plan: Plan
    places: PlanPlaces
    operators: tuple[PlanOperator, ...]
    covered: tuple[RelationSet, ...]
    states: NDArray[np.intp]
    former: tuple[tuple[Plan, PlanPlaces], ...]
    second: tuple[int | None, Plan, PlanPlaces | None] | None = None

    @classmethod
    def of(cls, memo: Memo, source: str, plan: Plan, former: Iterable[Plan]) -> PricedPlan:
        """PlanError if the memo lacks a join of the plan; former plans that it lacks are left out."""
        places = places_of(memo, source, plan)
        if places is None:
            raise planning.PlanError(f"plan of {source}: the memo has no such joins: {plan}")
        operators = tuple(planning.operators(plan, memo.graph))
        covered = tuple(memo.graph.set_of(operator.covers) for operator in operators)
        shape, number = memo.shape, memo.shape.sources.index(source)
        states = np.array([shape.state_of[s, shape.covered[s]] for s in covered], np.intp) + number * len(shape.states)
        before = ((other, placed) for other in former if (placed := places_of(memo, source, other)) is not None)
        return cls(memo, source, plan, places, operators, covered, states, tuple(before))

    def resume_runner_up(self, runner_up: Plan) -> None:
        """Takes the runner-up that is known from an earlier batch."""
        self.second = None, runner_up, places_of(self.memo, self.source, runner_up)

    @property
    def cost(self) -> float:
        """The current cost."""
        return self.places.cost(self.memo)

    def rows(self) -> tuple[list[float], list[float]]:
        """The estimated rows after each operator, and the factor by which sampling and feedback correct the statistics."""
        rows, alone = self.memo.table.rows[self.states], self.memo.table.uncorrected(self.states)
        factors = np.maximum(rows, 1.0) / np.maximum(alone, 1.0)
        return rows.tolist(), factors.tolist()

    def limit(self, bounds: SizeBounds | None, least: Mapping[RelationSet, float] = MappingProxyType({})) -> bool:
        """Limits the estimates of its operators, each from its ``least`` rows on, to their bounds, and those of no other sets (None: of
        none at all); returns whether the memo must be priced."""
        memo, known = self.memo, dict[RelationSet, float]()
        if bounds is not None:
            estimated = zip(self.covered, memo.table.unlimited(self.states).tolist())
            large = [relations for relations, rows in estimated if rows >= least.get(relations, 0.0)]
            known = {relations: rows for relations in large if not isinf(rows := bounds.rows(relations))}
        memo.table.limit(memo.shape.sources.index(self.source), known)
        return memo.table.pending

    def cheapest_other(self) -> Ranked | None:
        """The cheapest other plan; None if there is none."""
        memo = self.memo
        if not self.places.is_cheapest(memo):
            cheapest = plan_extraction.cheapest(memo, self.source)
            if self.second is None or self.second[1] != cheapest.plan:
                self.resume_runner_up(cheapest.plan)
            return cheapest
        found = self.places.second_best(memo)
        if found is None:
            self.second = None
            return None
        node, alternative, gap = found
        if self.second is not None:
            before, plan, places = self.second
            if before == alternative and places is not None and places.is_cheapest(memo, but=alternative):
                return Ranked(plan, plan_extraction.cheapest_cost(memo, self.source) + gap)
        other = plan_extraction.with_alternative(memo, self.source, node, alternative, gap)
        self.second = alternative, other.plan, places_of(memo, self.source, other.plan)
        return other

    def last_runner_up(self) -> Ranked | None:
        """The last runner-up with its current cost."""
        _, plan, places = self.second or (None, None, None)
        return None if plan is None or places is None else Ranked(plan, places.cost(self.memo))

    def all_places(self) -> list[PlanPlaces]:
        """The places of the plan, of the former plans, and of its runner-up."""
        second = self.second[2] if self.second is not None else None
        return [self.places, *(places for _, places in self.former), *([second] if second is not None else [])]

    def former_costs(self) -> tuple[Ranked, ...]:
        """The former plans with their current costs."""
        return tuple(Ranked(plan, places.cost(self.memo)) for plan, places in self.former)
