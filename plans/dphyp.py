"""DPhyp: csg-cmp pairs of a hypergraph (Moerkotte & Neumann 2008, *Dynamic programming strikes back*, §3).

An edge joins two *sets* of relations. A set is connected if it is one relation, or two connected sets with an edge between them.
The recursion is that of the paper. A caller may refuse pairs as they are found; sets that only refused pairs connect are not extended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cqels_opt.plans.relation_set import RelationSet, below, contains, members, size, subsets

Hyperedge = tuple[RelationSet, RelationSet]


class TooManyPairsError(Exception):
    """The budget of pairs is exceeded."""


class HyperSearch:
    """One run over the relations of a hypergraph. ``pairs`` are in an order in which both sides of a pair come before it."""

    def __init__(
        self, edges: Iterable[Hyperedge], budget: int, accept: Callable[[RelationSet, RelationSet], bool] = lambda *_: True
    ) -> None:
        self.budget, self.accept = budget, accept
        self.pairs: list[Hyperedge] = []
        self._built: set[RelationSet] = set()
        both = [edge for pair in edges for edge in (pair, pair[::-1])]
        self._simple: dict[int, RelationSet] = {}
        for left, right in both:
            if size(left) == size(right) == 1:
                self._simple[left.bit_length() - 1] = self._simple.get(left.bit_length() - 1, 0) | right
        self._complex: Sequence[Hyperedge] = [(u, v) for u, v in both if size(u) + size(v) > 2]
        self._around: dict[RelationSet, RelationSet] = {}
        self._neighbourhoods: dict[Hyperedge, RelationSet] = {}

    def run(self, relations: RelationSet) -> list[Hyperedge]:
        """The paper's Solve. Raises :class:`TooManyPairsError` beyond the budget."""
        self._built.update(1 << i for i in members(relations))
        for start in sorted(members(relations), reverse=True):
            self._emit_csg(1 << start)
            self._grow_csg(1 << start, below(start))
        return self.pairs

    def _reached(self, relations: RelationSet) -> RelationSet:
        """The relations that edges between two relations lead to."""
        found = self._around.get(relations)
        if found is None:
            found = 0
            for i in members(relations):
                found |= self._simple.get(i, 0)
            self._around[relations] = found
        return found

    def _neighbourhood(self, relations: RelationSet, excluded: RelationSet) -> RelationSet:
        """N(S, X): the lowest relation of each set that an edge leads to and that is disjoint with S and X."""
        if not self._complex:
            return self._reached(relations) & ~(relations | excluded)
        known = self._neighbourhoods.get((relations, excluded))
        if known is None:
            known = self._neighbourhoods[relations, excluded] = self._led_to(relations, ~(relations | excluded))
        return known

    def _led_to(self, relations: RelationSet, outside: RelationSet) -> RelationSet:
        found = self._reached(relations) & outside
        sets = [v for u, v in self._complex if contains(relations, u) and contains(outside, v) and not v & found]
        for v in sets:
            if not any(other != v and contains(v, other) for other in sets):
                found |= v & -v
        return found

    def _joined(self, left: RelationSet, right: RelationSet) -> bool:
        if self._reached(left) & right:
            return True
        return any(contains(left, u) and contains(right, v) for u, v in self._complex)

    def _grow_csg(self, first: RelationSet, excluded: RelationSet) -> None:
        """EnumerateCsgRec."""
        around = self._neighbourhood(first, excluded)
        for more in subsets(around):
            if first | more in self._built:
                self._emit_csg(first | more)
        for more in subsets(around):
            self._grow_csg(first | more, excluded | around)

    def _emit_csg(self, first: RelationSet) -> None:
        excluded = first | below((first & -first).bit_length() - 1)
        around = self._neighbourhood(first, excluded)
        for start in sorted(members(around), reverse=True):
            if self._joined(first, 1 << start):
                self._emit_pair(first, 1 << start)
            self._grow_complement(first, 1 << start, excluded | (below(start) & around))

    def _grow_complement(self, first: RelationSet, second: RelationSet, excluded: RelationSet) -> None:
        """EnumerateCmpRec."""
        around = self._neighbourhood(second, excluded)
        for more in subsets(around):
            if second | more in self._built and self._joined(first, second | more):
                self._emit_pair(first, second | more)
        for more in subsets(around):
            self._grow_complement(first, second | more, excluded | around)

    def _emit_pair(self, first: RelationSet, second: RelationSet) -> None:
        if self.accept(first, second):
            self._built.add(first | second)
            self.pairs.append((first, second))
            if len(self.pairs) > self.budget:
                raise TooManyPairsError
