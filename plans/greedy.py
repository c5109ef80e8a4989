"""Greedy operator ordering, for blocks with too many pairs to enumerate (GOO, Fegaras 1998).

The two parts whose join has the fewest rows are joined, until one part is left; parts without a shared variable are
multiplied only when nothing else remains. Units wait until what they require is bound. Beside that bushy tree a greedy
left-deep order from the delta is proposed. The pairs of both become a small memo, which orients each join and picks the
cheaper tree.
"""

from __future__ import annotations

from itertools import combinations

from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.enumerate import Pair
from cqels_opt.plans.relation_set import RelationSet, contains, members


def greedy_pairs(estimator: Estimator, source: int) -> list[Pair]:
    """The ordered pairs of the greedy trees for one delta source (an index into the estimator's sources)."""
    return _bushy(estimator, source) + _left_deep(estimator, source)


def _bushy(estimator: Estimator, source: int) -> list[Pair]:
    graph = estimator.graph
    parts: list[RelationSet] = [1 << i for i in range(len(graph.relations))]
    around = {part: graph.neighbourhood(part) for part in parts}
    able: dict[Pair, tuple[bool, float]] = {}  # what can be joined: products last, then by rows

    def consider(left: RelationSet, right: RelationSet) -> None:
        if graph.fits(left, right) or graph.fits(right, left):
            unit = contains(graph.units, left) or contains(graph.units, right)
            able[left, right] = (not unit and not around[left] & right, estimator.rows(source, left | right))

    for one, other in combinations(parts, 2):
        consider(one, other)
    pairs = []
    while len(parts) > 1:
        left, right = min(able, key=able.__getitem__)
        pairs += [pair for pair in ((left, right), (right, left)) if graph.fits(*pair)]
        parts = [part for part in parts if part not in (left, right)]
        able = {pair: found for pair, found in able.items() if not {left, right} & {*pair}}
        joined = left | right
        around[joined] = graph.neighbourhood(joined)
        for part in parts:
            consider(part, joined)
        parts.append(joined)
    return pairs


def _left_deep(estimator: Estimator, source: int) -> list[Pair]:
    graph = estimator.graph
    joined = 1 << graph.index[estimator.leaves.sources[source]]
    pairs = []
    while waiting := graph.everything & ~joined:
        able = [i for i in members(waiting) if graph.fits(joined, 1 << i)]
        connected = [i for i in able if 1 << i & (graph.neighbourhood(joined) | graph.units)]
        chosen = min(connected or able, key=lambda i: estimator.rows(source, joined | 1 << i))
        pairs.append((joined, 1 << chosen))
        joined |= 1 << chosen
    return pairs
