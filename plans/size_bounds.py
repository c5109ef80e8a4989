"""Upper bounds of the rows of joins, from the norms of degree sequences (LpBound: Zhang et al., SIGMOD 2025; Abo Khamis, Nakos, Olteanu &
Suciu, PODS 2024).

The degree sequence of a variable x in a relation R has the number of rows of R for each value of x; ℓ1, ℓ2 and ℓ∞ are its norms. A join
has at most

- as many rows as one relation, times ℓ∞ of each other relation on a variable by which it joins those before it;
- for two relations on x the known rows of their join, or ℓ2·ℓ2 (Cauchy and Schwarz);
- for R(x) ⋈ M(x, y) ⋈ S(y): ℓ2(R)·ℓ2(S)·√(ℓ∞(M, x)·ℓ∞(M, y)); the other relations as before.

These are the terms of the linear program of LpBound for norms 1, 2 and ∞ that start at one, two or three relations, so their least is a
bound for every join, cyclic ones included; so is the bound of some relations times ℓ∞ of the others. Conditions and times only remove
rows. Relations that share a variable with the delta are restricted to the values that the delta has, where those have been looked up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Protocol, TypeAlias

from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, contains, members, size

Norms: TypeAlias = "tuple[float, float, float]"
"""ℓ1, ℓ2 and ℓ∞ of a degree sequence, or more."""

ROUNDING = 1e-9
"""Relative; many times the rounding errors of a bound's factors."""

UNKNOWN: Norms = (math.inf, math.inf, math.inf)

ALL_STARTS = 6
"""The most relations of a set whose bound is the least from all starts: their number grows with the cube of the relations."""

FEW_STARTS = 2
"""For larger sets: the starts at one relation, besides the largest subset that has a bound."""


class DegreeStatistics(Protocol):
    """Upper bounds of what a plan of one delta source reads; None where nothing is known."""

    def most_rows(self, relation: str) -> float | None:
        """The rows of a relation."""

    def degree_norms(self, relation: str, variable: str) -> Norms | None:
        """The norms of a variable's degree sequence in a relation."""

    def static_join_rows(self, left: str, right: str, variable: str) -> float | None:
        """The rows of the join of two static relations."""

    def delta_norms(self, source: str, relation: str, variable: str) -> tuple[float, Norms] | None:
        """The rows of the join of the source's delta with a relation, and the relation's norms over the values of the delta."""


class SizeBounds:
    """The bounds of the sets of relations of one block in one batch, each computed when it is first read."""

    def __init__(self, graph: QueryGraph, source: str, degrees: DegreeStatistics) -> None:
        self.graph, self._degrees = graph, degrees
        self._source = graph.index[source]
        self._own = graph.relations[self._source]
        self._bounds: dict[RelationSet, float] = {}
        self._norms: dict[tuple[int, str, bool], Norms] = {}
        self._rows: dict[int, float] = {}
        self._met: dict[tuple[int, str], tuple[float, Norms]] = {}
        self._factors: dict[tuple[int, frozenset[str], bool], float] = {}

    def rows(self, relations: RelationSet) -> float:
        """At least the rows of a set of relations; infinite if nothing is known."""
        found = self._bounds.get(relations)
        if found is None:
            inner = relations & ~self.graph.units
            found = self._of_inner(inner)
            for unit in members(relations & self.graph.units):
                if found and self.graph.relations[unit].kind == "optional":
                    found *= max(1.0, self._entered(unit, self.graph.relations[unit].joined_on, inner))
            # a number of rows is whole; a rounding error must not make the bound smaller than it
            found = self._bounds[relations] = found if math.isinf(found) else float(math.floor(found * (1 + ROUNDING)))
        return found

    def greatest(self, covered: Iterable[RelationSet], below: float = math.inf) -> float:
        """The greatest bound of the operators of a plan. The search ends at one that is not ``below``; bounds that are known come first."""
        found = 0.0
        for relations in sorted(covered, key=lambda relations: relations not in self._bounds):
            found = max(found, self.rows(relations))
            if found >= below:
                break
        return found

    # ------------------------------------------------------------------ inside
    def _of_inner(self, inner: RelationSet) -> float:
        some = list(members(inner))
        if not some:
            return math.inf
        if any(self._rows_of(i, inner) == 0 for i in some):
            return 0.0
        found = math.inf
        for rows, placed in sorted(self._starts(some, inner) if len(some) <= ALL_STARTS else self._few_starts(some, inner)):
            if rows >= found:
                break
            found = min(found, self._grown(placed, rows, some, inner, found))
        return found

    def _starts(self, some: Sequence[int], inner: RelationSet) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Bounds of one, two and three relations."""
        relations = self.graph.relations
        for i in some:
            yield self._rows_of(i, inner), (i,)
        for i, j in combinations(some, 2):
            for x in relations[i].variables & relations[j].variables:
                yield min(self._join_rows(i, j, x), self._norm(i, x, inner)[1] * self._norm(j, x, inner)[1]), (i, j)
            for m in some:
                if m in (i, j):
                    continue
                for x in relations[i].variables & relations[m].variables:
                    for y in relations[j].variables & relations[m].variables - {x}:
                        middle = self._norm(m, x, inner)[2] * self._norm(m, y, inner)[2]
                        yield self._norm(i, x, inner)[1] * self._norm(j, y, inner)[1] * math.sqrt(middle), (i, m, j)

    def _few_starts(self, some: Sequence[int], inner: RelationSet) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Bounds of the smallest relations, and of the largest subset whose bound is known: operators of a plan cover nested sets."""
        yield from sorted((self._rows_of(i, inner), (i,)) for i in some)[:FEW_STARTS]
        known = max((part for part in self._bounds if contains(inner, part)), key=size, default=0)
        if known:
            yield self._bounds[known], tuple(members(known))

    def _grown(self, placed: Sequence[int], rows: float, some: Sequence[int], inner: RelationSet, below: float) -> float:
        """The bound of all relations from that of some: each next one joins with the least factor. It may stop once it is not ``below``."""
        waiting = [i for i in some if i not in placed]
        bound = frozenset[str]().union(*(self.graph.relations[i].variables for i in placed))
        while waiting and 0 < rows < below:
            factor, i = min((self._entered(i, bound, inner), i) for i in waiting)
            rows *= factor
            waiting.remove(i)
            bound |= self.graph.relations[i].variables
        return rows

    def _entered(self, i: int, bound: frozenset[str], inner: RelationSet) -> float:
        """The most rows of a relation that a row with some variables joins."""
        key = i, self.graph.relations[i].variables & bound, self._is_met(i, inner)
        found = self._factors.get(key)
        if found is None:
            norms = [self._norm(i, x, inner)[2] for x in key[1]]
            found = self._factors[key] = min(norms) if norms else self._rows_of(i, inner)
        return found

    def _join_rows(self, i: int, j: int, variable: str) -> float:
        if self._source in (i, j):
            return self._meeting(j if i == self._source else i, variable)[0]
        left, right = self.graph.relations[i].name, self.graph.relations[j].name
        return _known(self._degrees.static_join_rows(left, right, variable))

    def _rows_of(self, i: int, inner: RelationSet) -> float:
        """ℓ1 of a relation, restricted to what the delta meets if the delta is in the set."""
        rows = self._rows.get(i)
        if rows is None:
            rows = self._rows[i] = _known(self._degrees.most_rows(self.graph.relations[i].name))
        if not self._is_met(i, inner):
            return rows
        return min((rows, *(self._meeting(i, x)[1][0] for x in self._own.variables & self.graph.relations[i].variables)))

    def _norm(self, i: int, variable: str, inner: RelationSet) -> Norms:
        """The norms of a relation on a variable, restricted as in :meth:`_rows_of`."""
        met = self._is_met(i, inner)
        found = self._norms.get((i, variable, met))
        if found is None:
            found = self._degrees.degree_norms(self.graph.relations[i].name, variable) or UNKNOWN
            if met and variable in self._own.variables:
                one, two, greatest = self._meeting(i, variable)[1]
                found = min(found[0], one), min(found[1], two), min(found[2], greatest)
            rows = self._rows_of(i, inner)
            greatest = min(found[2], rows)
            found = self._norms[i, variable, met] = min(found[0], rows), min(found[1], _root(rows, greatest)), greatest
        return found

    def _is_met(self, i: int, inner: RelationSet) -> bool:
        return bool(inner >> self._source & 1) and i != self._source

    def _meeting(self, i: int, variable: str) -> tuple[float, Norms]:
        found = self._met.get((i, variable))
        if found is None:
            known = self._degrees.delta_norms(self._own.name, self.graph.relations[i].name, variable)
            found = self._met[i, variable] = known or (math.inf, UNKNOWN)
        return found


def _known(rows: float | None) -> float:
    return math.inf if rows is None else rows


def _root(rows: float, greatest: float) -> float:
    """ℓ2 is at most √(ℓ1·ℓ∞)."""
    return 0.0 if not rows or not greatest else math.sqrt(rows) * math.sqrt(greatest)
