"""All join trees, priced one by one in plain Python: the oracle that the memo is held against. Shares no code with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from cqels_opt.plans import Constants, QueryGraph
from cqels_opt.plans.memo import EACH_ROW

Tree = str | tuple["Tree", "Tree"]
Sizes = Callable[[frozenset[str], frozenset[str]], float]
"""The rows of some relations with some filters evaluated."""


def leaves(tree: Tree) -> frozenset[str]:
    return frozenset([tree]) if isinstance(tree, str) else leaves(tree[0]) | leaves(tree[1])


def trees(graph: QueryGraph, names: frozenset[str], source: str) -> Iterator[Tree]:
    """Every tree without cross products whose left end is the delta source, where it has it; a unit is alone on the right."""
    if len(names) == 1:
        yield from names
        return
    ordered = sorted(names)
    for bits in range(1, (1 << len(ordered)) - 1):
        left = frozenset(name for i, name in enumerate(ordered) if bits >> i & 1)
        right = names - left
        if source in right or is_unit(graph, left) or not variables(graph, left) & variables(graph, right):
            continue
        if is_unit(graph, right) and not graph.relations[graph.index[min(right)]].requires <= bound(graph, left):
            continue
        for a in trees(graph, left, source):
            for b in trees(graph, right, source):
                yield a, b


def variables(graph: QueryGraph, names: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(graph.relations[graph.index[name]].variables for name in names))


def is_unit(graph: QueryGraph, names: frozenset[str]) -> bool:
    return len(names) == 1 and graph.relations[graph.index[min(names)]].kind != "inner"


def bound(graph: QueryGraph, names: frozenset[str]) -> frozenset[str]:
    """What inner and optional relations bind."""
    found = [graph.relations[graph.index[name]] for name in names]
    return frozenset().union(*(r.variables - r.requires for r in found if r.kind in ("inner", "optional")))


@dataclass(frozen=True)
class Oracle:
    """Prices trees of one delta source; ``model`` is ``default`` or ``paper``."""

    graph: QueryGraph
    source: str
    sizes: Sizes
    model: str

    def covered(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(f.name for f in self.graph.filters if f.variables <= bound(self.graph, names))

    def weight(self, filters: frozenset[str]) -> float:
        return sum(f.weight for f in self.graph.filters if f.name in filters)

    def binding(self, names: frozenset[str], variables: frozenset[str]) -> frozenset[str]:
        """A least part of some relations that binds the variables: the first by the relations' places in the query."""
        found = [
            frozenset(some)
            for n in range(1, len(variables) + 1)
            for some in combinations(sorted(names), n)
            if variables <= bound(self.graph, frozenset(some))
        ]
        least = [some for some in found if not any(other < some for other in found)]
        return min(least, key=lambda some: sum(1 << self.graph.index[name] for name in some))

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
        if is_unit(self.graph, right):
            return a * math.log2(max(self.sizes(right, frozenset()), 1.0)) + self.paper(tree[0])
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
            return rows * c.scan + rows * self.weight(self.covered(names)) * c.evaluate
        left, right = leaves(tree[0]), leaves(tree[1])
        if is_unit(self.graph, right) and (sigma := self.graph.relations[self.graph.index[min(right)]]).kind == "filter":
            a, binding = self.sizes(left, self.covered(left)), self.binding(left, sigma.requires)
            distinct = min(a, self.sizes(binding, self.covered(binding)))
            return self.seconds(tree[0]) + (a * EACH_ROW + distinct * sigma.weight) * c.evaluate
        before = self.covered(left) | (self.covered(right) if len(right) > 1 else frozenset())
        produced = self.sizes(names, before)
        cost = (
            self.seconds(tree[0])
            + c.operator
            + produced * c.produce
            + produced * self.weight(self.covered(names) - before) * c.evaluate
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
