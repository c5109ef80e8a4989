"""The shape of a memo: its nodes, its states and its alternatives, as arrays. Nothing here depends on a statistic.

Nodes are (delta source, set of relations); an alternative of a node is (left set, operator, right set). In the plans of a
delta source its own relation is where the plan starts, so of two sides the one that holds it is always the left. The right
side of a probe is read through an index and is not scanned, so it refers to the *null node*, whose Ψ is 0. The nodes of
all delta sources lie in the same arrays, by size of their set, so one pass of numpy over a level prices all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.cardinality import State
from cqels_opt.plans.cost import CostModel, JoinOperator, JoinShape
from cqels_opt.plans.dpccp import Pair
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, contains, members, size

Ints = NDArray[np.intp]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The retained alternatives, structure of arrays; those of a node are neighbours.

    ``left`` and ``right`` are nodes, ``right`` the null node where it is probed; ``right_set`` is the node of the right side
    also then. The ``*_rows`` are positions in the state table (``produced_rows`` is before the filters that the join evaluates on each
    of its rows; a filter that is an operator looks at each row of its left side, and is evaluated for each distinct combination of
    its arguments, of which there are at most ``distinct_rows``). ``pair`` numbers the sides of a node, which several operators may
    join. The alternative ``evaluating[i]`` evaluates the filter ``evaluated[i]`` of :attr:`QueryGraph.weights`.
    """

    node: Ints
    left: Ints
    right: Ints
    right_set: Ints
    operator: NDArray[np.int8]
    left_rows: Ints
    right_rows: Ints
    produced_rows: Ints
    distinct_rows: Ints
    pair: Ints
    evaluating: Ints
    evaluated: Ints

    def of_source(self, offset: int, keep: Ints) -> Alternatives:
        """Some of them, which read a state table without so many of its places; not which filters they evaluate."""
        nothing = np.empty(0, np.intp)
        return Alternatives(
            self.node[keep],
            self.left[keep],
            self.right[keep],
            self.right_set[keep],
            self.operator[keep],
            self.left_rows[keep] - offset,
            self.right_rows[keep] - offset,
            self.produced_rows[keep] - offset,
            self.distinct_rows[keep] - offset,
            self.pair[keep],
            nothing,
            nothing,
        )

    def weights(self, filters: Floats) -> Floats:
        """What the filters of each alternative weigh together: each counts as if those before it kept every row."""
        return np.bincount(self.evaluating, filters[self.evaluated], minlength=len(self.node)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Level:
    """The nodes of one size: their places, those of their alternatives, and where each node's alternatives start."""

    nodes: slice
    alternatives: slice
    starts: Ints


@dataclass(frozen=True, slots=True)
class MemoLayout:
    """Everything of a memo that is fixed when a query is registered.

    ``node_sets`` and ``node_source`` say what a node is and ``node_of`` finds it; the first ``leaves`` nodes are single
    relations, and ``null`` is the node of Ψ = 0 after the last. ``first`` has the first alternative of each node, and one more.
    A state's place in the state table is its number plus ``len(states)`` a source before its own.
    """

    sources: tuple[str, ...]
    node_sets: tuple[RelationSet, ...]
    node_source: tuple[int, ...]
    node_of: dict[tuple[int, RelationSet], int]
    leaves: int
    states: tuple[State, ...]
    state_of: dict[State, int]
    covered: dict[RelationSet, int]
    alternatives: Alternatives
    first: Ints
    levels: tuple[Level, ...]
    free: NDArray[np.bool_]

    @property
    def null(self) -> int:
        """The node of Ψ = 0."""
        return len(self.node_sets)

    def of_source(self, number: int, keep: Ints) -> MemoLayout:
        """The alternatives ``keep`` of one source alone, which are neighbours in each level; nodes keep their numbers."""
        first = np.searchsorted(keep, self.first).astype(np.intp)
        levels = []
        for level in self.levels:
            nodes = [n for n in range(level.nodes.start, level.nodes.stop) if self.node_source[n] == number]
            if nodes:
                begin, end = nodes[0], nodes[-1] + 1
                levels.append(
                    Level(slice(begin, end), slice(int(first[begin]), int(first[end])), first[begin:end] - first[begin])
                )
        return replace(
            self, alternatives=self.alternatives.of_source(number * len(self.states), keep), first=first, levels=tuple(levels)
        )


def build(graph: QueryGraph, sources: tuple[str, ...], pairs: Iterable[Pair], model: CostModel) -> MemoLayout:
    """The memo's shape from the ordered (left, right) pairs that plans may be made of."""
    ordered = sorted(dict.fromkeys(pairs), key=lambda pair: size(pair[0] | pair[1]))
    singles = [1 << i for i in range(len(graph.relations))]
    starts = [1 << graph.index[source] for source in sources]
    derived = [_derived(start, singles, ordered) for start in starts]
    by_size: list[list[tuple[int, RelationSet]]] = [[] for _ in range(len(singles) + 1)]
    for source, sets in enumerate(derived):
        for relations in sets:
            by_size[size(relations)].append((source, relations))
    nodes = [node for level in by_size for node in sorted(level)]
    node_of = {node: position for position, node in enumerate(nodes)}
    everywhere = sorted(set(singles).union(*derived))
    covered = {relations: graph.covered_filters(relations) for relations in everywhere}
    static = {relations: graph.is_static(relations) for relations in everywhere}
    states: dict[State, int] = {}
    for state in (*covered.items(), *((relations, 0) for relations in singles)):
        states.setdefault(state, len(states))
    around = {relations: graph.neighbourhood(relations) for relations in everywhere}
    kinds = {1 << i: relation.kind for i, relation in enumerate(graph.relations) if relation.kind != "inner"}
    operators = cache(lambda *shape: model.operators(JoinShape(*shape)))
    place_of = {name: place for place, name in enumerate(graph.weights)}
    rows: list[tuple[int, ...]] = []
    evaluated: list[tuple[int, ...]] = []
    for number, (left, right) in enumerate(ordered):
        both, single = left | right, not right & (right - 1)
        using = [s for s, start in enumerate(starts) if not start & right and left in derived[s] and right in derived[s]]
        if not using:
            continue
        kind = kinds.get(right, "inner")
        for operator in operators(kind != "inner" or bool(around[left] & right), single, static[right], kind):
            probed = operator is JoinOperator.PROBE or kind != "inner"
            inside = 0 if probed and single else covered[right]
            before = covered[left] | inside
            fresh = tuple(members(covered[both] & ~before))
            distinct = states[left, covered[left]]
            if operator is JoinOperator.FILTER:
                unit = right.bit_length() - 1
                fresh = (place_of[graph.relations[unit].name],)
                binding = next(s for s in graph.least_sets(unit) if contains(left, s))
                distinct = states.setdefault((binding, graph.covered_filters(binding)), len(states))
            produced = states.setdefault((both, before), len(states))
            common = (operator, states[left, covered[left]], states[right, inside], produced, distinct, number)
            for source in using:
                side = node_of[source, right]
                rows.append((node_of[source, both], node_of[source, left], len(nodes) if probed else side, side, *common))
                evaluated.append(fresh)
    node_source = tuple(source for source, _ in nodes)
    return MemoLayout(
        sources,
        tuple(relations for _, relations in nodes),
        node_source,
        node_of,
        len(by_size[1]),
        tuple(states),
        states,
        covered,
        *_arrays(rows, evaluated, node_source, len(states), [len(level) for level in by_size[1:]]),
        np.array([model.static_is_free and static[relations] for _, relations in nodes], bool),
    )


def _derived(start: RelationSet, singles: Iterable[RelationSet], ordered: Iterable[Pair]) -> set[RelationSet]:
    """The sets that plans of a delta source can be made of; ``ordered`` comes by size."""
    found = set(singles)
    for left, right in ordered:
        if not start & right and left in found and right in found:
            found.add(left | right)
    return found


def _arrays(
    rows: list[tuple[int, ...]], evaluated: list[tuple[int, ...]], node_source: tuple[int, ...], states: int, sizes: list[int]
) -> tuple[Alternatives, Ints, tuple[Level, ...]]:
    """The alternatives in the order of their nodes, where those of each node begin, and the levels; ``sizes`` counts nodes."""
    table = np.array(rows, np.intp).reshape(len(rows), 10)
    order = np.argsort(table[:, 0], kind="stable")
    filters = [(i, place) for i, row in enumerate(order.tolist()) for place in evaluated[row]]
    table = table[order]
    node = table[:, 0].copy()
    offset = np.array(node_source, np.intp)[node] * states
    alternatives = Alternatives(
        node=node,
        left=table[:, 1].copy(),
        right=table[:, 2].copy(),
        right_set=table[:, 3].copy(),
        operator=table[:, 4].astype(np.int8),
        left_rows=table[:, 5] + offset,
        right_rows=table[:, 6] + offset,
        produced_rows=table[:, 7] + offset,
        distinct_rows=table[:, 8] + offset,
        pair=table[:, 9].copy(),
        evaluating=np.array([i for i, _ in filters], np.intp),
        evaluated=np.array([place for _, place in filters], np.intp),
    )
    first = np.searchsorted(node, np.arange(len(node_source) + 1)).astype(np.intp)
    levels = []
    begin = sizes[0]
    for count in sizes[1:]:
        end = begin + count
        if count:
            levels.append(Level(slice(begin, end), slice(int(first[begin]), int(first[end])), first[begin:end] - first[begin]))
        begin = end
    return alternatives, first, tuple(levels)
