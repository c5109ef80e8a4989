"""Plans out of a memo: the cheapest, the runner-up, the most expensive, and the k best in order.

The cost of a plan is the sum of Φ over its joins and of Ψ over its scans. So the runner-up is the cheapest plan with one node of its
tree replaced by that node's second-best pair of sides. The k best are found lazily (Huang & Chiang 2005, *Better k-best parsing*,
algorithm 3): each node keeps a heap of candidates, and asks its sides for the next plan only when it is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.cost import JoinOperator
from cqels_opt.plans.cycles import multiway_keys
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Multiway, Plan, Scan, join_plans
from cqels_opt.plans.relation_set import members

MULTIWAY: Final = int(JoinOperator.MULTIWAY)
"""As a number: numpy compares it with members of an enumeration slowly."""

Choices = dict[int, int]
"""The alternative of a plan at some of its nodes; at the others it takes the cheapest one."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A plan with its cost under the statistics that the memo last read."""

    plan: Plan
    cost: float


def cheapest(memo: Memo, source: str) -> Ranked:
    """The plan whose cost is Ψ of the whole block."""
    return Ranked(_plan(memo, memo.root(source), {}), cheapest_cost(memo, source))


def cheapest_cost(memo: Memo, source: str) -> float:
    """Ψ of the whole block."""
    return float(memo.psi[memo.root(source)])


def runner_up(memo: Memo, source: str) -> Ranked | None:
    """The second cheapest plan; None if there is only one plan."""
    root = memo.root(source)
    found = [(*second, node) for node in _joins(memo, root) if (second := _second_best(memo, node)) is not None]
    if not found:
        return None
    gap, alternative, node = min(found, key=lambda other: other[0])
    return with_alternative(memo, source, node, alternative, gap)


def with_alternative(memo: Memo, source: str, node: int, alternative: int, gap: float) -> Ranked:
    """The cheapest plan with another alternative at one node, which costs ``gap`` more."""
    root = memo.root(source)
    return Ranked(_plan(memo, root, {node: alternative}), float(memo.psi[root]) + gap)


def _second_best(memo: Memo, node: int) -> tuple[float, int] | None:
    """The cheapest alternative of a node with other sides than its cheapest one, after the difference of their costs."""
    span, pairs = memo.shape.alternatives_of(node), memo.shape.alternatives.pair
    if memo.shape.free[node]:
        return None
    totals = memo.total[span]
    first = int(totals.argmin())
    others = np.where(pairs[span] == pairs[span.start + first], np.inf, totals)
    second = int(others.argmin())
    gap = float(others[second] - totals[first])
    return (gap, span.start + second) if np.isfinite(gap) else None


def most_expensive(memo: Memo, source: str) -> Ranked:
    """The most expensive retained join order, each join by its cheapest operator (``--plan worst``)."""
    found, shape = memo.shape.alternatives, memo.shape
    worst = memo.psi.copy()
    choices: Choices = {}
    number = shape.sources.index(source)
    for level in shape.levels:
        span = level.alternatives
        totals = memo.phi[span] + worst[found.left[span]] + worst[found.right[span]]
        for node in range(level.nodes.start, level.nodes.stop):
            if shape.node_source[node] == number:
                own = shape.alternatives_of(node)
                taken = own.start + _most_expensive_pair(totals[own.start - span.start : own.stop - span.start], found.pair[own])
                choices[node] = taken
                worst[node] = 0.0 if shape.free[node] else totals[taken - span.start]
    root = memo.root(source)
    return Ranked(_plan(memo, root, choices), float(worst[root]))


def _most_expensive_pair(totals: NDArray[np.float64], pairs: NDArray[np.intp]) -> int:
    """The alternative of the most expensive pair by its cheapest operator; the operators of a pair are adjacent."""
    starts = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]])
    least = np.minimum.reduceat(totals, starts)
    start = starts[int(least.argmax())]
    return int(start + totals[start : start + int((pairs == pairs[start]).sum())].argmin())


# ------------------------------------------------------------------ trees
def _alternative(memo: Memo, node: int, choices: Choices) -> int:
    """The alternative of a plan at a node: its choice, or else the cheapest (the first of equals)."""
    if (chosen := choices.get(node)) is not None:
        return chosen
    span = memo.shape.alternatives_of(node)
    return int(span.start + memo.total[span].argmin())


def _sides(memo: Memo, alternative: int) -> tuple[int, int]:
    found = memo.shape.alternatives
    return int(found.left[alternative]), int(found.right_set[alternative])


def _is_multiway(memo: Memo, alternative: int) -> bool:
    return bool(memo.shape.alternatives.operator[alternative] == MULTIWAY)


def _multiway(memo: Memo, alternative: int, left: Plan) -> Plan:
    """The plan of a multiway join whose left side has this plan."""
    keys = multiway_keys(memo.graph, *(memo.shape.node_sets[side] for side in _sides(memo, alternative)))
    assert keys is not None
    return Multiway.of(left, keys)


def _joins(memo: Memo, node: int) -> Iterator[int]:
    """The nodes of the joins of the cheapest plan of a node."""
    if node >= memo.shape.leaves:
        yield node
        alternative = _alternative(memo, node, {})
        left, right = _sides(memo, alternative)
        yield from _joins(memo, left)
        if not _is_multiway(memo, alternative):
            yield from _joins(memo, right)


def _plan(memo: Memo, node: int, choices: Choices) -> Plan:
    if node < memo.shape.leaves:
        (relation,) = members(memo.shape.node_sets[node])
        return Scan(memo.graph.relations[relation].name)
    alternative = _alternative(memo, node, choices)
    left, right = _sides(memo, alternative)
    if _is_multiway(memo, alternative):
        return _multiway(memo, alternative, _plan(memo, left, choices))
    on = memo.graph.shared(memo.shape.node_sets[left], memo.shape.node_sets[right])
    return join_plans(_plan(memo, left, choices), _plan(memo, right, choices), on)


# ------------------------------------------------------------------ the k best
@dataclass(frozen=True, slots=True, order=True)
class _Candidate:
    """A derivation of a node: an alternative, with the ranks of the plans taken for its sides."""

    cost: float
    alternative: int
    left_rank: int
    right_rank: int


class _KBest:
    """Lazily ranked derivations of every node below a root."""

    def __init__(self, memo: Memo) -> None:
        self.memo = memo
        self._ranked: dict[int, list[tuple[float, Plan]]] = {}
        self._heaps: dict[int, list[_Candidate]] = {}
        self._seen: dict[int, set[tuple[int, int, int]]] = {}

    def nth(self, node: int, rank: int) -> tuple[float, Plan] | None:
        """The plan of a node with this rank (0: the cheapest) after its cost; None if the node has fewer plans."""
        memo = self.memo
        if node < memo.shape.leaves or memo.shape.free[node]:
            return (float(memo.psi[node]), _plan(memo, node, {})) if rank == 0 else None
        ranked = self._ranked.setdefault(node, [])
        if node not in self._heaps:  # the cheapest derivation of each alternative is priced already; its sides are not read
            span = memo.shape.alternatives_of(node)
            self._heaps[node] = [
                _Candidate(cost, alternative, 0, 0) for alternative, cost in enumerate(memo.total[span].tolist(), span.start)
            ]
            heapq.heapify(self._heaps[node])
            self._seen[node] = {(alternative, 0, 0) for alternative in range(span.start, span.stop)}
        while len(ranked) <= rank:
            if not self._heaps[node]:
                return None
            best = heapq.heappop(self._heaps[node])
            plan = self._plan_of(best)
            if all(plan != known for _, known in ranked):
                ranked.append((best.cost, plan))
            self._offer(node, best.alternative, best.left_rank + 1, best.right_rank)
            self._offer(node, best.alternative, best.left_rank, best.right_rank + 1)
        return ranked[rank]

    def _plan_of(self, candidate: _Candidate) -> Plan:
        """The plan of a candidate."""
        left, right = _sides(self.memo, candidate.alternative)
        if _is_multiway(self.memo, candidate.alternative):
            before = self.nth(left, candidate.left_rank)
            assert before is not None
            return _multiway(self.memo, candidate.alternative, before[1])
        one, other = self.nth(left, candidate.left_rank), self.nth(right, candidate.right_rank)
        assert one is not None and other is not None
        on = self.memo.graph.shared(self.memo.shape.node_sets[left], self.memo.shape.node_sets[right])
        return join_plans(one[1], other[1], on)

    def _offer(self, node: int, alternative: int, left_rank: int, right_rank: int) -> None:
        """Adds a derivation to the candidates of a node, unless it is known or one of its sides has fewer plans."""
        place = (alternative, left_rank, right_rank)
        if place in self._seen[node]:
            return
        self._seen[node].add(place)
        left, right = _sides(self.memo, alternative)
        if _is_multiway(self.memo, alternative) and right_rank:  # its right side is not a plan of its own
            return
        left_plan, right_plan = self.nth(left, left_rank), self.nth(right, right_rank)
        if left_plan is not None and right_plan is not None:
            scanned = self.memo.shape.alternatives.right[alternative] != self.memo.shape.null
            cost = float(self.memo.phi[alternative]) + left_plan[0] + (right_plan[0] if scanned else 0.0)
            heapq.heappush(self._heaps[node], _Candidate(cost, alternative, left_rank, right_rank))


def ranked(memo: Memo, source: str) -> Iterator[Ranked]:
    """Every retained plan of a delta source, cheapest first, found one at a time."""
    search, root, rank = _KBest(memo), memo.root(source), 0
    while (found := search.nth(root, rank)) is not None:
        yield Ranked(found[1], found[0])
        rank += 1
