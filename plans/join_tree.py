"""Join trees of a plan's probes: in which relations rows can be looked up before an operator expands them.

A plan probes one relation after the other. The look-up in a relation needs its join variables only, which earlier rows or one earlier
relation have bound. That row set or relation is its parent in a join tree of the acyclic part of the plan (Yannakakis 1981). Relations
below one parent can be looked up together, and rows without a match in one of them dropped before any of them is expanded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from cqels_opt.plans.plan import Plan, Probe, Scan, relations
from cqels_opt.plans.query_graph import QueryGraph

Names: TypeAlias = "frozenset[str]"

ROWS: Final = -1
"""The parent of relations that are looked up for the rows at hand."""


class ProbedRelation(NamedTuple):
    """A relation that a plan probes: the variables on which it does so, and all its variables."""

    name: str
    on: tuple[str, ...]
    variables: Names


class JoinTreeNode(NamedTuple):
    """A relation of a join tree, and the place of the one that binds the variables on which it is probed (:data:`ROWS`: the rows do)."""

    relation: ProbedRelation
    parent: int


JoinTree: TypeAlias = "tuple[JoinTreeNode, ...]"
"""The nodes in the order of the plan, so parents precede their children."""


def join_tree(bound: Names, probed: Sequence[ProbedRelation]) -> JoinTree:
    """The join tree of rows that bind some variables and of the relations that are probed next, in the order of the plan.

    A relation is left out if no single part binds its join variables, as where it closes a cycle. Only relations that are themselves
    probed on one variable have children.
    """
    nodes: list[JoinTreeNode] = []
    for relation in probed:
        if bound.issuperset(relation.on):
            nodes.append(JoinTreeNode(relation, ROWS))
            continue
        for place, (other, _) in enumerate(nodes):
            if len(other.on) == 1 and other.variables.issuperset(relation.on):
                nodes.append(JoinTreeNode(relation, place))
                break
    return tuple(nodes)


def children(tree: JoinTree, parent: int) -> list[int]:
    """The places of the relations below a parent."""
    return [place for place, node in enumerate(tree) if node.parent == parent]


def join_tree_of(plan: Plan, graph: QueryGraph) -> JoinTree:
    """The join tree of a plan's delta and of the relations that its rows are looked up in, without units."""
    probed, at = list[ProbedRelation](), plan
    while not isinstance(at, Scan):
        if isinstance(at, Probe) and at.on and (node := graph.relations[graph.index[at.relation]]).kind == "inner":
            probed.insert(0, ProbedRelation(at.relation, at.on, node.variables))
        at = at.input
    return join_tree(graph.relations[graph.index[at.relation]].variables, probed)


def described(plan: Plan, graph: QueryGraph) -> str | None:
    """The sentence of EXPLAIN on semi-join reduction; None where nothing can be looked up before an operator expands it.

    Of a star over static data without conditions it has the guarantee (docs/guarantees.md).
    """
    tree = join_tree_of(plan, graph)
    if len(tree) < 2:
        return None
    others = [relation for relation in graph.relations if relation.name != relations(plan)[0]]
    star = len(tree) == len(others) and all(node.parent == ROWS for node in tree)
    static = graph.is_static(graph.set_of(relation.name for relation in others)) and not graph.filters
    limit = "; then each operator gives at most as many rows as the last one" if star and static else ""
    return f"rows that multiply are looked up in {written(tree)} first{limit}"


def written(tree: JoinTree, parent: int = ROWS) -> str:
    """The text of a tree: the relations below a parent, each with those below it in brackets."""
    texts = []
    for place in children(tree, parent):
        below = written(tree, place)
        texts.append(tree[place].relation.name + (f" ({below})" if below else ""))
    return ", ".join(texts)
