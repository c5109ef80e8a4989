"""Which reorderings of joins, outer joins and anti joins give the same answers: conflict rules (Moerkotte, Fender & Eich 2013, §5).

The operator tree is the query as written. It gives each operator the relations that it needs on either side (the syntactic eligibility
set, SES) and its *conflict rules* T1 → T2: if a relation of T1 is joined, those of T2 must be joined as well. A pair of sets may be joined
by an operator that is :func:`applicable` to it; every plan built from such pairs is legal (their algorithm CD-C).

SPARQL differs from SQL in two ways. A join compares all variables that both sides bind, so the needs of an operator are variables:
*some* relation that binds each of them on every row. And an unbound variable is compatible with any value, so no predicate
rejects nulls: if only the optional side binds a variable, an operator that joins on it needs that side as written, and
assoc(⟕, ⟕) never holds. A join also *fills* an unbound variable with the value of the other side, so two operators that compare a variable
that may be unbound keep their order, unless both are inner joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TypeAlias

from cqels_opt.plans.query_graph import JoinKind, QueryGraph
from cqels_opt.plans.relation_set import RelationSet, members, size

Needs: TypeAlias = "tuple[RelationSet, ...]"
"""A set of relations satisfies it if it has a relation of each of these sets."""

Rule: TypeAlias = "tuple[RelationSet, Needs]"
"""If one of the first relations is joined, the second part must be satisfied."""

ASSOC: frozenset[tuple[JoinKind, JoinKind]] = frozenset(
    {("inner", "inner"), ("inner", "optional"), ("inner", "anti"), ("inner", "semi"), ("inner", "filter")}
)
"""(e1 a e2) b e3 = e1 a (e2 b e3), if b compares variables of e2 and e3 alone."""

R_ASSCOM: frozenset[tuple[JoinKind, JoinKind]] = frozenset({("inner", "inner")})
"""e1 a (e2 b e3) = e2 b (e1 a e3), if a compares variables of e1 and e3 alone."""

# l-asscom, (e1 a e2) b e3 = (e1 b e3) a e2 if b compares variables of e1 and e3 alone, holds for all of these operators:
# none is a full outer join.


@dataclass(frozen=True, slots=True)
class Leaf:
    """A relation: its index, the variables that it can bind, and those among them that it binds on every row."""

    index: int
    variables: frozenset[str]
    certain: frozenset[str]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator over two parts. It compares the variables of both; ``reads`` are other variables of the left side that it reads."""

    kind: JoinKind
    left: OperatorTree
    right: OperatorTree
    reads: frozenset[str] = frozenset()


OperatorTree: TypeAlias = Leaf | Node


@dataclass(frozen=True, slots=True)
class TreeOperator:
    """The needs of an operator of the tree on its left and right, its conflict rules, and the variables that it compares.

    ``loose`` has, for each variable, the relations on one side that may leave it unbound, and all that can bind it on the other;
    ``reach`` has all relations that can satisfy its needs, left and right.
    """

    kind: JoinKind
    left: Needs
    right: Needs
    rules: tuple[Rule, ...]
    on: frozenset[str]
    loose: tuple[tuple[RelationSet, RelationSet], ...]
    reach: tuple[RelationSet, RelationSet]


def relations(tree: OperatorTree) -> RelationSet:
    """T: the relations of a tree."""
    return 1 << tree.index if isinstance(tree, Leaf) else relations(tree.left) | relations(tree.right)


def visible(tree: OperatorTree) -> frozenset[str]:
    """The variables that a tree can bind."""
    if isinstance(tree, Leaf):
        return tree.variables
    return visible(tree.left) | visible(tree.right) if tree.kind in ("inner", "optional") else visible(tree.left)


def carriers(tree: OperatorTree, variable: str) -> tuple[RelationSet, RelationSet]:
    """The relations that bind a variable on every row of the tree, and all that can bind it."""
    if isinstance(tree, Leaf):
        return (1 << tree.index) * (variable in tree.certain), (1 << tree.index) * (variable in tree.variables)
    certain, possible = carriers(tree.left, variable)
    if tree.kind in ("inner", "optional"):
        other, more = carriers(tree.right, variable)
        possible |= more
        certain |= other if tree.kind == "inner" else 0
    return certain, possible


def weak(tree: OperatorTree, variable: str) -> RelationSet:
    """The relations of a tree that may bind a variable which was unbound before, or leave it unbound."""
    if isinstance(tree, Leaf):
        return (1 << tree.index) * (variable in tree.variables - tree.certain)
    found = weak(tree.left, variable)
    if tree.kind == "inner" or (tree.kind == "optional" and carriers(tree.left, variable)[0]):
        return found | weak(tree.right, variable)
    return found | carriers(tree.right, variable)[1] if tree.kind == "optional" else found


def _loose(node: Node, variable: str) -> Iterator[tuple[RelationSet, RelationSet]]:
    for side, other in ((node.left, node.right), (node.right, node.left)):
        if found := weak(side, variable):
            yield found, carriers(other, variable)[1]


def operators(tree: OperatorTree) -> tuple[TreeOperator, ...]:
    """The operators of a tree. An inner join on several variables, bound on both sides, is an operator for each of them."""
    return tuple(operator for node in _nodes(tree) for operator in _of_node(node))


def _nodes(tree: OperatorTree) -> Iterator[Node]:
    if isinstance(tree, Node):
        yield from _nodes(tree.left)
        yield from _nodes(tree.right)
        yield tree


def _needed(tree: OperatorTree, variable: str) -> tuple[Needs, bool]:
    """The relations that a variable needs in order to have its value in the tree; and whether it is always bound."""
    certain, possible = carriers(tree, variable)
    return ((certain,), True) if certain else (tuple(1 << i for i in members(possible)), False)


def _sides(node: Node) -> tuple[Needs, Needs]:
    """SES(o) ∩ T(left(o)) and SES(o) ∩ T(right(o)); of a product, all of both."""
    on = visible(node.left) & visible(node.right)
    if not on:
        return tuple(1 << i for i in members(relations(node.left))), tuple(1 << i for i in members(relations(node.right)))
    left = [need for x in sorted(on | node.reads) for need in _needed(node.left, x)[0]]
    right = [need for x in sorted(on) for need in _needed(node.right, x)[0]]
    return tuple(dict.fromkeys(left)), tuple(dict.fromkeys(right))


def _rules(node: Node) -> tuple[Rule, ...]:
    """CD-C, for all operators below this one (Figure 11 of the paper)."""
    found: list[Rule] = []
    for below in (*_nodes(node.left), *_nodes(node.right)):
        if _fills(below, node):
            everything = tuple(1 << i for i in members(relations(below)))
            found.append((relations(below), everything))
    for below in _nodes(node.left):
        left, right = _sides(below)
        if (below.kind, node.kind) not in ASSOC:
            found.append((relations(below.right), left))
    for below in _nodes(node.right):
        left, right = _sides(below)
        if (node.kind, below.kind) not in ASSOC:
            found.append((relations(below.left), right))
        if (node.kind, below.kind) not in R_ASSCOM:
            found.append((relations(below.right), left))
    return tuple(dict.fromkeys(found))


def _fills(below: Node, node: Node) -> bool:
    """Whether the upper of two operators may bind a variable that the lower one compares and may find unbound, or both bind it.

    An operator that binds nothing only needs the relations that bind its variables.
    """
    if below.kind == node.kind == "inner" or node.kind not in ("inner", "optional"):
        return False
    on = visible(node.left) & visible(node.right)
    compared = visible(below.left) & visible(below.right)
    added = visible(below.right) if below.kind == "optional" else frozenset[str]()
    return any(not _needed(below.left, x)[1] for x in on & (compared | added)) or any(
        not _needed(node.left, x)[1] for x in on & compared
    )


def _of_node(node: Node) -> Iterator[TreeOperator]:
    left, right = _sides(node)
    rules, on = _rules(node), visible(node.left) & visible(node.right)
    bound = all(_needed(side, x)[1] for side in (node.left, node.right) for x in on)
    if node.kind != "inner" or not on or not bound:
        loose = tuple(pair for x in sorted(on) for pair in _loose(node, x))
        yield TreeOperator(node.kind, left, right, rules, on, loose, (reduce(or_, left), reduce(or_, right)))
        return
    for x in sorted(on):
        (one,), (other,) = _needed(node.left, x)[0], _needed(node.right, x)[0]
        yield TreeOperator("inner", (one,), (other,), rules, frozenset([x]), tuple(_loose(node, x)), (one, other))


# ------------------------------------------------------------------ legal pairs
def _satisfied(needs: Needs, by: RelationSet) -> bool:
    return all(need & by for need in needs) if len(needs) > 1 else bool(needs[0] & by)


def applicable(operator: TreeOperator, left: RelationSet, right: RelationSet) -> bool:
    """Whether an operator of the tree may join these two sets, each a plan of its own (CD-C's test).

    An operator is used once: if one side satisfies the needs of both of its sides, it was used there.
    """
    if not _satisfied(operator.left, left) or not _satisfied(operator.right, right):
        return False
    both = left | right
    if not all(_satisfied(needs, both) for first, needs in operator.rules if first & both):
        return False
    return not any(_satisfied(operator.left, side) and _satisfied(operator.right, side) for side in (left, right))


def joining(found: Sequence[TreeOperator], left: RelationSet, right: RelationSet) -> TreeOperator | None:
    """The operator that joins ``left`` with ``right`` in this orientation; None if no operator may.

    A join compares all variables that both sides bind; one that may be unbound must be compared by its own operator.
    """
    used: TreeOperator | None = None
    for operator in found:
        on_left, on_right = operator.reach
        here = on_left & left and on_right & right and applicable(operator, left, right)
        there = on_left & right and on_right & left and applicable(operator, right, left)
        if here or (there and operator.kind == "inner"):
            if used is not None and not used.kind == operator.kind == "inner":
                return None
            used = used or operator
        elif there or any((a & left and b & right) or (a & right and b & left) for a, b in operator.loose):
            return None
    return used


def orientations(found: Sequence[TreeOperator], one: RelationSet, other: RelationSet) -> list[tuple[RelationSet, RelationSet]]:
    """The orders in which two sets may be joined."""
    operator = joining(found, one, other)
    if operator is not None and operator.kind == "inner":
        return [(one, other), (other, one)]
    return [(one, other)] if operator else [(other, one)] if joining(found, other, one) else []


def legal(
    found: Sequence[TreeOperator], pairs: Iterable[tuple[RelationSet, RelationSet]]
) -> list[tuple[RelationSet, RelationSet]]:
    """The ordered pairs that plans may be made of, from csg-cmp pairs in any orientation; of an inner join both orders."""
    built: set[RelationSet] = set()
    kept = []
    for one, other in sorted(pairs, key=lambda pair: size(pair[0] | pair[1])):
        if all(not side & (side - 1) or side in built for side in (one, other)) and (ways := orientations(found, one, other)):
            kept += ways
            built.add(one | other)
    return kept


# ------------------------------------------------------------------ a query graph as written
def written(graph: QueryGraph, component: RelationSet) -> OperatorTree:
    """A component of a query graph as an operator tree: its inner joins, connected ones one after the other, then its units."""
    waiting, bound, ordered = list(members(component & graph.inner)), frozenset[str](), list[int]()
    while waiting:
        chosen = next((i for i in waiting if graph.relations[i].variables & bound), waiting[0])
        waiting.remove(chosen)
        ordered.append(chosen)
        bound |= graph.relations[chosen].variables
    leaves: list[OperatorTree] = [Leaf(i, graph.relations[i].variables, graph.relations[i].variables) for i in ordered]
    tree = reduce(lambda left, right: Node("inner", left, right), leaves)
    units = sorted(members(component & graph.units), key=lambda i: (graph.relations[i].kind == "filter", i))
    for i in units:
        unit = graph.relations[i]
        tree = Node(unit.kind, tree, Leaf(i, unit.variables, unit.variables), unit.requires)
    return tree
