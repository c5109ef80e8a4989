"""Plans out of a memo: the cheapest, the runner-up, the dearest, the cost of a given one, and the k best in order.

The cost of a plan is the sum of Φ over its joins and of Ψ over its scans, so the runner-up is the cheapest plan with one
node of its tree at that node's second-best pair of sides. The k best are found lazily, as in Huang & Chiang 2005
(algorithm 3): each node keeps a heap of candidates, and asks its sides for one more only when that is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan, Scan, join_plans, right_side
from cqels_opt.plans.relation_set import RelationSet, members

Choices = dict[int, int]
"""The alternative that a plan takes at each of its nodes."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A plan with its cost under the statistics that the memo last saw."""

    plan: Plan
    cost: float


def cheapest(memo: Memo, source: str) -> Ranked:
    """The plan whose cost is Ψ of the whole block."""
    return Ranked(_plan(memo, memo.root(source), {}), cheapest_cost(memo, source))


def cheapest_cost(memo: Memo, source: str) -> float:
    """Ψ of the whole block."""
    return float(memo.psi[memo.root(source)])


def runner_up(memo: Memo, source: str) -> Ranked | None:
    """The cheapest plan but one; None where there is only one plan."""
    root = memo.root(source)
    best: tuple[float, int, int] | None = None
    for node in _nodes(memo, root):
        span = slice(int(memo.shape.first[node]), int(memo.shape.first[node + 1]))
        if memo.shape.free[node] or span.stop - span.start < 2:
            continue
        totals = memo.total[span]
        first = int(totals.argmin())
        others = np.where(memo.shape.alternatives.pair[span] == memo.shape.alternatives.pair[span.start + first], np.inf, totals)
        second = int(others.argmin())
        gap = float(others[second] - totals[first])
        if np.isfinite(gap) and (best is None or gap < best[0]):
            best = (gap, node, span.start + second)
    if best is None:
        return None
    return Ranked(_plan(memo, root, {best[1]: best[2]}), float(memo.psi[root]) + best[0])


def most_expensive(memo: Memo, source: str) -> Ranked:
    """The dearest retained join order, each join by its cheapest operator (``--plan worst``)."""
    found, shape = memo.shape.alternatives, memo.shape
    worst = memo.psi.copy()
    choices: Choices = {}
    number = shape.sources.index(source)
    for level in shape.levels:
        span = level.alternatives
        totals = memo.phi[span] + worst[found.left[span]] + worst[found.right[span]]
        for node in range(level.nodes.start, level.nodes.stop):
            if shape.node_source[node] == number:
                begin, end = int(shape.first[node]) - span.start, int(shape.first[node + 1]) - span.start
                taken = _most_expensive_pair(totals[begin:end], found.pair[span][begin:end])
                choices[node] = span.start + begin + taken
                worst[node] = 0.0 if shape.free[node] else totals[begin + taken]
    root = memo.root(source)
    return Ranked(_plan(memo, root, choices), float(worst[root]))


def _most_expensive_pair(totals: NDArray[np.float64], pairs: NDArray[np.intp]) -> int:
    """The alternative of the dearest pair by its cheapest operator; the operators of a pair are neighbours."""
    starts = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]])
    least = np.minimum.reduceat(totals, starts)
    start = starts[int(least.argmax())]
    return int(start + totals[start : start + int((pairs == pairs[start]).sum())].argmin())


def cost_of(memo: Memo, source: str, plan: Plan) -> float | None:
    """The cost now of a plan, each join by its cheapest operator; None where the memo lacks one of its joins."""
    shape, graph, found = memo.shape, memo.graph, memo.shape.alternatives
    number = shape.sources.index(source)

    def cost(part: Plan) -> tuple[RelationSet, float] | None:
        """The relations of a part, and what it costs."""
        if isinstance(part, Scan):
            relations = 1 << graph.index[part.relation]
            return relations, float(memo.psi[shape.node_of[number, relations]])
        left, right = cost(part.input), cost(right_side(part))
        if left is None or right is None or (node := shape.node_of.get((number, left[0] | right[0]))) is None:
            return None
        if shape.free[node]:
            return left[0] | right[0], 0.0
        begin, end = int(shape.first[node]), int(shape.first[node + 1])
        here = begin + np.flatnonzero(found.right_set[begin:end] == shape.node_of[number, right[0]])
        if not len(here):
            return None
        scanned = np.where(found.right[here] == shape.null, 0.0, right[1])
        return left[0] | right[0], float((memo.phi[here] + left[1] + scanned).min())

    priced = cost(plan)
    return None if priced is None else priced[1]


# ------------------------------------------------------------------ trees
def _alternative(memo: Memo, node: int, choices: Choices) -> int:
    """The alternative a plan takes at a node: what it chose, otherwise the cheapest (the first of equals)."""
    if (chosen := choices.get(node)) is not None:
        return chosen
    begin, end = int(memo.shape.first[node]), int(memo.shape.first[node + 1])
    return begin + int(memo.total[begin:end].argmin())


def _sides(memo: Memo, alternative: int) -> tuple[int, int]:
    found = memo.shape.alternatives
    return int(found.left[alternative]), int(found.right_set[alternative])


def _nodes(memo: Memo, node: int) -> Iterator[int]:
    """The joins of the cheapest plan of a node."""
    if node >= memo.shape.leaves:
        yield node
        for side in _sides(memo, _alternative(memo, node, {})):
            yield from _nodes(memo, side)


def _plan(memo: Memo, node: int, choices: Choices) -> Plan:
    if node < memo.shape.leaves:
        (relation,) = members(memo.shape.node_sets[node])
        return Scan(memo.graph.relations[relation].name)
    left, right = _sides(memo, _alternative(memo, node, choices))
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
        """The plan of a node with this rank (0: the cheapest) and its cost; None where there are not so many."""
        memo = self.memo
        if node < memo.shape.leaves or memo.shape.free[node]:
            return (float(memo.psi[node]), _plan(memo, node, {})) if rank == 0 else None
        ranked = self._ranked.setdefault(node, [])
        if node not in self._heaps:
            self._heaps[node], self._seen[node] = [], set()
            for alternative in range(int(memo.shape.first[node]), int(memo.shape.first[node + 1])):
                self._offer(node, alternative, 0, 0)
        while len(ranked) <= rank:
            if not self._heaps[node]:
                return None
            best = heapq.heappop(self._heaps[node])
            left, right = _sides(memo, best.alternative)
            left_plan, right_plan = self.nth(left, best.left_rank), self.nth(right, best.right_rank)
            if left_plan is not None and right_plan is not None:
                on = memo.graph.shared(memo.shape.node_sets[left], memo.shape.node_sets[right])
                plan = join_plans(left_plan[1], right_plan[1], on)
                if all(plan != known for _, known in ranked):
                    ranked.append((best.cost, plan))
            self._offer(node, best.alternative, best.left_rank + 1, best.right_rank)
            self._offer(node, best.alternative, best.left_rank, best.right_rank + 1)
        return ranked[rank]

    def _offer(self, node: int, alternative: int, left_rank: int, right_rank: int) -> None:
        place = (alternative, left_rank, right_rank)
        if place in self._seen[node]:
            return
        self._seen[node].add(place)
        left, right = _sides(self.memo, alternative)
        left_plan, right_plan = self.nth(left, left_rank), self.nth(right, right_rank)
        if left_plan is not None and right_plan is not None:
            scanned = self.memo.shape.alternatives.right[alternative] != self.memo.shape.null
            cost = float(self.memo.phi[alternative]) + left_plan[0] + (right_plan[0] if scanned else 0.0)
            heapq.heappush(self._heaps[node], _Candidate(cost, alternative, left_rank, right_rank))


def ranked(memo: Memo, source: str) -> Iterator[Ranked]:
    """Every retained plan of a delta source, cheapest first, found as they are asked for."""
    search, root, rank = _KBest(memo), memo.root(source), 0
    while (found := search.nth(root, rank)) is not None:
        yield Ranked(found[1], found[0])
        rank += 1
