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
    rows: dict[Pair, float] = {}

    def joined(pair: Pair) -> tuple[bool, float]:
        if pair not in rows:
            rows[pair] = estimator.rows(source, pair[0] | pair[1])
        unit = any(contains(graph.units, part) for part in pair)
        return (not unit and not around[pair[0]] & pair[1], rows[pair])

    pairs = []
    while len(parts) > 1:
        left, right = min((pair for pair in combinations(parts, 2) if graph.fits(*pair) or graph.fits(*pair[::-1])), key=joined)
        pairs += [pair for pair in ((left, right), (right, left)) if graph.fits(*pair)]
        parts = [part for part in parts if part not in (left, right)] + [left | right]
        around[left | right] = graph.neighbourhood(left | right)
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
