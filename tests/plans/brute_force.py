"""All join trees, priced one by one in plain Python: the oracle that the memo is held against. Shares no code with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from cqels_opt.plans import Constants, QueryGraph
from cqels_opt.plans.cost import BEYOND, LARGE_BUILD
from cqels_opt.plans.memo import EACH_ROW

Tree = str | tuple["Tree", "Tree | frozenset[str]"]
"""A relation, a join of two parts, or a join of a part with several relations at once."""

Sizes = Callable[[frozenset[str], frozenset[str]], float]
"""The rows of some relations with some filters evaluated."""


def leaves(tree: Tree | frozenset[str]) -> frozenset[str]:
    if isinstance(tree, frozenset):
        return tree
    return frozenset([tree]) if isinstance(tree, str) else leaves(tree[0]) | leaves(tree[1])


def trees(graph: QueryGraph, names: frozenset[str], source: str, multiway: bool = True) -> Iterator[Tree]:
    """Every tree without cross products whose left end is the delta source, where it has it; a unit is alone on the right.

    With ``multiway``, relations that close a cycle may be joined at once.
    """
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
        for a in trees(graph, left, source, multiway):
            for b in trees(graph, right, source, multiway):
                yield a, b
            if multiway and closes(graph, left, right):
                yield a, right


def closes(graph: QueryGraph, left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether a multiway join can add these relations: they bind the same variables, and close a cycle with the left side as a whole."""
    edges = [graph.relations[graph.index[name]].variables for name in sorted(right)]
    before = bound(graph, left)
    inner = [r.variables for r in graph.relations if r.kind == "inner"]
    return (
        len(right) > 1
        and all(not is_unit(graph, frozenset([name])) for name in right)
        and len({edge - before for edge in edges}) == 1
        and all(edge - before and edge & before for edge in edges)
        and is_cyclic([before, *edges])
        and is_cyclic(inner)
    )


def is_cyclic(edges: Sequence[frozenset[str]]) -> bool:
    """Whether a hypergraph has no join forest: a maximum spanning forest by shared variables has too few of them (Maier 1983, §13)."""
    parts = [frozenset([i]) for i in range(len(edges))]
    weight = 0
    for a, b in sorted(combinations(range(len(edges)), 2), key=lambda pair: -len(edges[pair[0]] & edges[pair[1]])):
        one, other = (next(part for part in parts if i in part) for i in (a, b))
        if one != other:
            weight += len(edges[a] & edges[b])
            parts = [part for part in parts if part not in (one, other)] + [one | other]
    return weight < sum(map(len, edges)) - len(frozenset().union(*edges))


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
        if isinstance(tree[1], frozenset):
            return self.seconds(tree[0]) + self.multiway(left, right)
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
            look_ups = a * self.graph.relations[self.graph.index[min(right)]].indexes
            return cost + look_ups * (c.probe + c.step * math.log2(max(self.sizes(right, frozenset()), 1.0)))
        built = self.sizes(right, self.covered(right))
        longer = 1 + BEYOND * max(0.0, math.log2(max(built, 1.0) / LARGE_BUILD))
        return cost + self.seconds(tree[1]) + built * c.build * longer + a * c.match

    def multiway(self, left: frozenset[str], right: frozenset[str]) -> float:
        """Each row is looked up in each relation, and each of the candidates, as many as the least fan-outs, in the others."""
        c, before = Constants(), self.covered(left)
        rows = self.sizes(left, before)
        fans = [self.sizes(left | {name}, before) for name in right]
        found = 0.0 if not rows or not all(fans) else 1 / sum(1 / fan for fan in fans)
        produced = self.sizes(left | right, before)
        largest = max(self.sizes(frozenset([name]), frozenset()) for name in right)
        look_ups = rows * len(right) + found * (len(right) - 1)
        filtered = produced * self.weight(self.covered(left | right) - before)
        return (
            3 * c.operator
            + (produced + found) * c.produce
            + filtered * c.evaluate
            + look_ups * (c.probe + c.step * math.log2(max(largest, 1.0)))
        )


def every(oracle: Oracle) -> Iterator[Tree]:
    everything = frozenset(r.name for r in oracle.graph.relations)
    return trees(oracle.graph, everything, oracle.source, multiway=oracle.model != "paper")


def cheapest(oracle: Oracle) -> float:
    return min(map(oracle.cost, every(oracle)))


def dearest(oracle: Oracle) -> float:
    return max(map(oracle.cost, every(oracle)))
