"""All join trees, priced one by one in plain Python: the oracle that the memo is held against. Shares no code with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cqels_opt.plans import Constants, QueryGraph

Tree = str | tuple["Tree", "Tree"]
Sizes = Callable[[frozenset[str], frozenset[str]], float]
"""The rows of some relations with some filters evaluated."""


def leaves(tree: Tree) -> frozenset[str]:
    return frozenset([tree]) if isinstance(tree, str) else leaves(tree[0]) | leaves(tree[1])


def trees(graph: QueryGraph, names: frozenset[str], source: str) -> Iterator[Tree]:
    """Every tree without cross products whose left end is the delta source, where it has it."""
    if len(names) == 1:
        yield from names
        return
    ordered = sorted(names)
    for bits in range(1, (1 << len(ordered)) - 1):
        left = frozenset(name for i, name in enumerate(ordered) if bits >> i & 1)
        right = names - left
        if source in right or not variables(graph, left) & variables(graph, right):
            continue
        for a in trees(graph, left, source):
            for b in trees(graph, right, source):
                yield a, b


def variables(graph: QueryGraph, names: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(graph.relations[graph.index[name]].variables for name in names))


@dataclass(frozen=True)
class Oracle:
    """Prices trees of one delta source; ``model`` is ``default`` or ``paper``."""

    graph: QueryGraph
    source: str
    sizes: Sizes
    model: str

    def covered(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(f.name for f in self.graph.filters if f.variables <= variables(self.graph, names))

    def is_static(self, names: frozenset[str]) -> bool:
        return not any(self.graph.relations[self.graph.index[name]].dynamic for name in names)

    def cost(self, tree: Tree) -> float:
        return self.paper(tree) if self.model == "paper" else self.seconds(tree)

    def paper(self, tree: Tree) -> float:
        names = leaves(tree)
        if isinstance(tree, str) or self.is_static(names):
            return 0.0
        left, right = leaves(tree[0]), leaves(tree[1])
        a = self.sizes(left, self.covered(left))
        loop = a * self.sizes(right, self.covered(right)) + self.paper(tree[0]) + self.paper(tree[1])
        if len(right) == 1 or self.is_static(right):
            b = self.sizes(right, frozenset() if len(right) == 1 else self.covered(right))
            return min(loop, a * math.log2(max(b, 1.0)) + self.paper(tree[0]))
        return loop

    def seconds(self, tree: Tree) -> float:
        c = Constants()
        names = leaves(tree)
        if isinstance(tree, str):
            rows = self.sizes(names, frozenset())
            return rows * c.scan + rows * len(self.covered(names)) * c.evaluate
        left, right = leaves(tree[0]), leaves(tree[1])
        before = self.covered(left) | (self.covered(right) if len(right) > 1 else frozenset())
        produced = self.sizes(names, before)
        cost = (
            self.seconds(tree[0]) + c.operator + produced * c.produce + produced * len(self.covered(names) - before) * c.evaluate
        )
        a = self.sizes(left, self.covered(left))
        if len(right) == 1:
            return cost + a * (c.probe + c.step * math.log2(max(self.sizes(right, frozenset()), 1.0)))
        return cost + self.seconds(tree[1]) + self.sizes(right, self.covered(right)) * c.build + a * c.match


def cheapest(oracle: Oracle) -> float:
    everything = frozenset(r.name for r in oracle.graph.relations)
    return min(oracle.cost(tree) for tree in trees(oracle.graph, everything, oracle.source))


def dearest(oracle: Oracle) -> float:
    everything = frozenset(r.name for r in oracle.graph.relations)
    return max(oracle.cost(tree) for tree in trees(oracle.graph, everything, oracle.source))


def given_sizes(known: Mapping[frozenset[str], float]) -> Sizes:
    return lambda names, filters: known[names]
