"""Free-connex queries, and their height: how far a new row can be from the rows that decide whether it has answers.

A *generalized join tree* has all relations as nodes, and as inner nodes also projections: some variables of a relation below. The nodes
that have a variable are connected. It is *free-connex* if those nodes at its top that have output variables only have all of these (Bagan,
Durand & Grandjean 2007). Its *height* is the most nodes on a path from the root, without projections whose variables all nodes below have.
Queries of height 1 are the q-hierarchical ones (Berkholz, Keppeler & Schweikardt 2017). Up to height 2, state exists that takes constant
time per row of a window, on average, because rows leave in the order in which they came (CROWN; Wang, Hu, Dai & Yi 2023, *Change
Propagation Without Joins*). The plans here keep no such state: :func:`described` states what they do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import chain, combinations
from typing import Final, TypeAlias

from cqels_opt.plans.join_tree import ROWS, join_tree_of
from cqels_opt.plans.plan import Plan, relations
from cqels_opt.plans.query_graph import QueryGraph

MOST, MOST_SHARED = 12, 6
"""The most relations for which the height is computed, and the most variables that one of them shares with others."""

Variables: TypeAlias = "frozenset[str]"
NONE: Final[Variables] = frozenset()


def described(plan: Plan, graph: QueryGraph, output: Collection[str]) -> str | None:
    """The sentence of EXPLAIN on the work of a plan per row of the delta, if other windows are joined; None if none has been derived.

    It holds for plans that probe each relation on one variable, without conditions (docs/guarantees.md). Answers are those of the joins,
    before a projection makes some of them equal.
    """
    source, *others = relations(plan)
    tree, least = join_tree_of(plan, graph), height(graph, graph.variables(graph.everything))
    windows = any(relation.dynamic and relation.name != source for relation in graph.relations)
    if (
        least is None
        or not windows
        or graph.filters
        or len(tree) < len(others)
        or any(len(node.relation.on) > 1 for node in tree)
    ):
        return None
    inner = dict.fromkeys(tree[node.parent].relation.name for node in tree if node.parent != ROWS)
    work = f"and the rows that it meets in {' and '.join(inner)}" if inner else "whatever the size of the windows"
    projected = "" if height(graph, output) else ", not free-connex: equal answers are made one by one"
    return f"look-ups, its answers, {work} (height {least}{projected})"


def height(graph: QueryGraph, output: Collection[str]) -> int | None:
    """The least height of a free-connex join tree of a query; None if it has none, has units, or is too large to compute.

    >>> from cqels_opt.plans import QueryGraph, RelationNode
    >>> path = QueryGraph([RelationNode(name, frozenset(name), True) for name in ("ab", "bc", "cd")])
    >>> height(path, "abcd"), height(path, "ad")
    (2, None)
    """
    variables = [relation.variables for relation in graph.relations]
    every = NONE.union(*variables)
    shared, read = {x for x in every if sum(x in relation for relation in variables) > 1}, frozenset(output)
    if graph.units or len(variables) > MOST or max(len(relation & shared) for relation in variables) > MOST_SHARED:
        return None

    def under(some: frozenset[int], node: Variables, *, all_have: bool) -> int | None:
        """The least height of trees of some relations under a node; ``all_have``: the roots of the trees have all its variables."""
        return _greatest(tree(part, node if all_have else _variables(part) & node) for part in _connected(some, node))

    @cache
    def tree(some: frozenset[int], known: Variables) -> int | None:
        """The least height of a tree of relations that other variables connect, whose root has all of ``known``."""
        if len(some) == 1 and known <= _variables(some) and is_allowed(_variables(some), some, known):
            return 1
        found = [split(some, known)]
        for i in some:
            if known <= variables[i] and is_allowed(variables[i], some, known):
                found.append(_plus_one(under(some - {i}, variables[i], all_have=False)))
        return min((h for h in found if h is not None), default=None)

    def split(some: frozenset[int], known: Variables) -> int | None:
        """The least height with a projection as the root: ``known``, others that relations share, and all or none that are only read."""
        mine = [variables[i] - known for i in some if known <= variables[i]]
        roots = {known | more | own for new in mine for more in _subsets(new & shared) for own in (NONE, new & read - shared)} - {
            known
        }
        found = []
        for root in (root for root in roots if is_allowed(root, some, known)):
            found += [under(some, root, all_have=True), _plus_one(under(some, root, all_have=False))]
        return min((h for h in found if h is not None), default=None)

    def is_allowed(node: Variables, some: frozenset[int], known: Variables) -> bool:
        """Whether a node may be below one with ``known``: it has output variables only, or nothing new below it is one."""
        return node <= read or _variables(some) & read <= known

    def _variables(some: Iterable[int]) -> Variables:
        return NONE.union(*(variables[i] for i in some))

    def _connected(some: frozenset[int], known: Variables) -> Iterator[frozenset[int]]:
        rest = set(some)
        while rest:
            part = {rest.pop()}
            while more := {i for i in rest if variables[i] & _variables(part) - known}:
                part |= more
                rest -= more
            yield frozenset(part)

    return under(frozenset(range(len(variables))), frozenset(), all_have=True)


def _greatest(heights: Iterable[int | None]) -> int | None:
    found = [*heights]
    return None if None in found else max(h for h in found if h is not None)


def _plus_one(found: int | None) -> int | None:
    return None if found is None else found + 1


def _subsets(variables: Variables) -> Iterator[Variables]:
    names = sorted(variables)
    return map(frozenset, chain.from_iterable(combinations(names, size) for size in range(len(names) + 1)))
