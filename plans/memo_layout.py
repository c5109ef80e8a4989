"""The layout of a memo: its nodes, states and alternatives, as arrays. Nothing here depends on a statistic.

A node is (delta source, set of relations); an alternative of a node is (left set, operator, right set). A plan of a delta source begins
with its own relation, so that relation is always on the left. The right side of a probe is read through an index and is not scanned, so
it refers to the *null node*, whose Ψ is 0. The nodes of all delta sources are in the same arrays, in the order of the sizes of their sets
(the levels of the dynamic program, Selinger et al. 1979), so that one pass of numpy over a level prices all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.cardinality import State
from cqels_opt.plans.cost import CostModel, JoinOperator, JoinShape
from cqels_opt.plans.cycles import is_cyclic, multiway_keys
from cqels_opt.plans.dpccp import Pair
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, contains, members, size

Ints = NDArray[np.intp]
Floats = NDArray[np.float64]

_Row: TypeAlias = "tuple[int, int, int, int, int, int, int, int, int, int]"
"""An alternative: the first ten columns of :class:`Alternatives`."""

_Proposals: TypeAlias = "tuple[tuple[int, int], ...]"
"""For each relation of a multiway join the states of its rows, and of its rows joined with the left side; empty for other joins."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The retained alternatives as a structure of arrays; the alternatives of a node are adjacent.

    ``node``, ``left``, ``right`` and ``right_set`` are nodes. ``right`` is the null node if the right side is probed; ``right_set`` is
    the node of the right side in any case. The ``*_rows`` are positions in the state table. ``produced_rows`` counts the rows before
    the filters that the join evaluates on each of them. A look-up in the right side costs as much as ``indexes`` look-ups in one index
    (:class:`~cqels_opt.plans.query_graph.RelationNode`), 1 unless the operator is a probe of it. A filter that is an operator reads
    each row of its left side, and is evaluated once per distinct combination of its arguments, of which there are at most
    ``distinct_rows``. ``pair`` numbers the pairs of sides, which several operators may join; a multiway join has a pair of its own. The
    alternative ``evaluating[i]`` evaluates the filter ``evaluated[i]`` of :attr:`QueryGraph.weights`. A multiway join adds ``added``
    relations; ``added_rows`` and ``proposed_rows`` have one column for each: its rows, and its rows joined with the left side. Unused
    columns repeat the last one, or the left rows.
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
    added: Ints
    added_rows: Ints
    proposed_rows: Ints
    indexes: Floats

    @property
    def read_rows(self) -> tuple[Ints, ...]:
        """All columns of positions in the state table: what the costs of an alternative depend on."""
        return self.left_rows, self.right_rows, self.produced_rows, self.distinct_rows, self.proposed_rows, self.added_rows

    def of_source(self, offset: int, keep: Ints) -> Alternatives:
        """The alternatives at the places ``keep``, for a state table without its first ``offset`` places; without their filters."""
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
            self.added[keep],
            self.added_rows[keep] - offset,
            self.proposed_rows[keep] - offset,
            self.indexes[keep],
        )

    def weights(self, filters: Floats) -> Floats:
        """The total weight of the filters of each alternative, as if each filter kept every row."""
        return np.bincount(self.evaluating, filters[self.evaluated], minlength=len(self.node)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Level:
    """The nodes of one size: their positions, those of their alternatives, and where the alternatives of each node start."""

    nodes: slice
    alternatives: slice
    starts: Ints


@dataclass(frozen=True, slots=True)
class MemoLayout:
    """The part of a memo that is fixed when a query is registered.

    ``node_sets`` and ``node_source`` describe each node, and ``node_of`` finds it. The first ``leaves`` nodes are single
    relations; ``null``, the node of Ψ = 0, follows the last. ``first`` has the first alternative of each node, and the end of the last.
    The position of a state in the state table is its number, plus ``len(states)`` for each source before its own. ``free`` marks the nodes
    that cost nothing.
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

    def alternatives_of(self, node: int) -> slice:
        """The positions of a node's alternatives."""
        return slice(int(self.first[node]), int(self.first[node + 1]))

    def of_source(self, number: int, keep: Ints) -> MemoLayout:
        """The alternatives ``keep`` of one source alone, which are adjacent in each level; nodes keep their numbers."""
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
    """The memo's layout for the ordered (left, right) pairs that plans may be made of."""
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
    joins = _Joins(graph, model, sorted(set(singles).union(*derived)), singles)
    rows: list[_Row] = []
    evaluated: list[tuple[int, ...]] = []
    proposed: list[_Proposals] = []
    indexes: list[float] = []
    for number, (left, right) in enumerate(ordered):
        using = [s for s, start in enumerate(starts) if not start & right and left in derived[s] and right in derived[s]]
        for operator in joins.operators(left, right) if using else ():
            probed, states, conditions = joins.evaluation(operator, left, right)
            multiway = operator is JoinOperator.MULTIWAY
            proposals = joins.proposals(left, right) if multiway else ()
            read = graph.relations[right.bit_length() - 1].indexes if operator is JoinOperator.PROBE and size(right) == 1 else 1.0
            for source in using:
                side = node_of[source, right]
                sides = node_of[source, left | right], node_of[source, left], len(nodes) if probed else side, side
                rows.append((*sides, operator, *states, number + len(ordered) * multiway))
                evaluated.append(conditions)
                proposed.append(proposals)
                indexes.append(read)
    node_source = tuple(source for source, _ in nodes)
    return MemoLayout(
        sources,
        tuple(relations for _, relations in nodes),
        node_source,
        node_of,
        len(by_size[1]),
        tuple(joins.states),
        joins.states,
        joins.covered,
        *_arrays(rows, evaluated, proposed, indexes, node_source, len(joins.states), [len(level) for level in by_size[1:]]),
        np.array([model.static_is_free and joins.static[relations] for _, relations in nodes], bool),
    )


class _Joins:
    """What the joins of a graph read, whatever the delta source: the operators of a pair, the states of its sides and of its result.

    ``states`` numbers the states in the order in which they are first read.
    """

    def __init__(self, graph: QueryGraph, model: CostModel, sets: Sequence[RelationSet], singles: Sequence[RelationSet]) -> None:
        self.graph = graph
        self.covered = {relations: graph.covered_filters(relations) for relations in sets}
        self.static = {relations: graph.is_static(relations) for relations in sets}
        self.states: dict[State, int] = {}
        for state in (*self.covered.items(), *((relations, 0) for relations in singles)):
            self._state(*state)
        self._around = {relations: graph.neighbourhood(relations) for relations in sets}
        self._kinds = {1 << i: relation.kind for i, relation in enumerate(graph.relations) if relation.kind != "inner"}
        self._place_of = {name: place for place, name in enumerate(graph.weights)}
        self._operators = cache(lambda *shape: model.operators(JoinShape(*shape)))
        self._is_cyclic = is_cyclic(graph)

    def operators(self, left: RelationSet, right: RelationSet) -> tuple[JoinOperator, ...]:
        """The operators that the cost model considers for a pair."""
        kind = self._kinds.get(right, "inner")
        connected = kind != "inner" or bool(self._around[left] & right)
        closing = self._is_cyclic and multiway_keys(self.graph, left, right) is not None
        return self._operators(connected, size(right) == 1, self.static[right], kind, closing)

    def evaluation(
        self, operator: JoinOperator, left: RelationSet, right: RelationSet
    ) -> tuple[bool, tuple[int, int, int, int], tuple[int, ...]]:
        """Whether the right side is probed, the states of the left side, the right side, the result and the distinct arguments, and the
        filters that the operator evaluates.

        A probed relation is read without its filters, which are then evaluated after the probe.
        """
        both, kind, multiway = left | right, self._kinds.get(right, "inner"), operator is JoinOperator.MULTIWAY
        probed = multiway or operator is JoinOperator.PROBE or kind != "inner"
        inside = 0 if multiway or (probed and size(right) == 1) else self.covered[right]
        before = self.covered[left] | inside
        conditions = tuple(members(self.covered[both] & ~before))
        distinct = self.states[left, self.covered[left]]
        if operator is JoinOperator.FILTER:
            unit = right.bit_length() - 1
            conditions = (self._place_of[self.graph.relations[unit].name],)
            binding = next(s for s in self.graph.least_sets(unit) if contains(left, s))
            distinct = self._state(binding, self.graph.covered_filters(binding))
        produced = self._state(both, before)
        before_join = self.states[left, self.covered[left]]
        read = before_join if multiway else self.states[right, inside]  # of a multiway join see proposals
        return probed, (before_join, read, produced, distinct), conditions

    def proposals(self, left: RelationSet, right: RelationSet) -> _Proposals:
        """The states of each relation of a multiway join, and of its join with the left side."""
        return tuple((self.states[1 << i, 0], self._state(left | 1 << i, self.covered[left])) for i in members(right))

    def _state(self, relations: RelationSet, filters: int) -> int:
        return self.states.setdefault((relations, filters), len(self.states))


def _derived(start: RelationSet, singles: Iterable[RelationSet], ordered: Iterable[Pair]) -> set[RelationSet]:
    """The sets that parts of a delta source's plans can have; ``ordered`` is in the order of sizes."""
    found = set(singles)
    for left, right in ordered:
        if not start & right and left in found and right in found:
            found.add(left | right)
    return found


def _arrays(
    rows: list[_Row],
    evaluated: list[tuple[int, ...]],
    proposed: list[_Proposals],
    indexes: list[float],
    node_source: tuple[int, ...],
    states: int,
    sizes: list[int],
) -> tuple[Alternatives, Ints, tuple[Level, ...]]:
    """The alternatives in the order of their nodes, the first one of each node, and the levels; ``sizes`` has the nodes per level."""
    table = np.array(rows, np.intp).reshape(len(rows), 10)
    order = np.argsort(table[:, 0], kind="stable")
    filters = [(i, place) for i, row in enumerate(order.tolist()) for place in evaluated[row]]
    added = np.array([len(found) for found in proposed], np.intp)
    width = max(map(len, proposed), default=0)
    padded = [(*found, *[found[-1] if found else (row[5], row[5])] * (width - len(found))) for row, found in zip(rows, proposed)]
    columns = np.array(padded, np.intp).reshape(len(rows), width, 2)[order]
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
        added=added[order],
        added_rows=columns[:, :, 0] + offset[:, None],
        proposed_rows=columns[:, :, 1] + offset[:, None],
        indexes=np.array(indexes, np.float64)[order],
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
