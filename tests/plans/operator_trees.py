"""Random operator trees over small relations with nulls, a naive SPARQL evaluation of them, and all plans made of given pairs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations

from cqels_opt.plans.conflict_rules import Leaf, Needs, Node, OperatorTree, TreeOperator, carriers, joining, relations, visible
from cqels_opt.plans.query_graph import JoinKind
from cqels_opt.plans.relation_set import RelationSet, contains, members

Row = frozenset[tuple[str, int]]
"""A solution mapping; an unbound variable is not in it."""

Bag = Counter[Row]

KINDS: tuple[JoinKind, ...] = ("inner", "inner", "optional", "optional", "anti", "semi")


def random_tree(rng: random.Random, count: int, nulls: float = 0.2, variables: int = 4) -> OperatorTree:
    """A tree of ``count`` relations, of any shape, in which operators share variables where they can."""
    names = [f"v{i}" for i in range(variables)]

    def leaf(index: int) -> Leaf:
        bound = frozenset(rng.sample(names, rng.randint(1, 2)))
        return Leaf(index, bound, frozenset(v for v in bound if rng.random() >= nulls))

    def tree(indexes: Sequence[int]) -> OperatorTree:
        if len(indexes) == 1:
            return leaf(indexes[0])
        cut = len(indexes) - 1 if rng.random() < 0.6 else rng.randint(1, len(indexes) - 1)
        return Node(rng.choice(KINDS), tree(indexes[:cut]), tree(indexes[cut:]))

    while True:
        found = tree(range(count))
        if all(visible(node.left) & visible(node.right) for node in nodes(found)):
            return found


def nodes(tree: OperatorTree) -> Iterator[Node]:
    if isinstance(tree, Node):
        yield tree
        yield from nodes(tree.left)
        yield from nodes(tree.right)


def leaves(tree: OperatorTree) -> list[Leaf]:
    return [tree] if isinstance(tree, Leaf) else leaves(tree.left) + leaves(tree.right)


def random_bags(rng: random.Random, tree: OperatorTree) -> dict[int, Bag]:
    bags = {}
    for leaf in leaves(tree):
        rows: Bag = Counter()
        for _ in range(rng.randint(0, 4)):
            row = frozenset((v, rng.randint(0, 2)) for v in sorted(leaf.variables) if v in leaf.certain or rng.random() < 0.5)
            rows[row] += rng.randint(1, 2)
        bags[leaf.index] = rows
    return bags


# ------------------------------------------------------------------ SPARQL 1.1 §18.5, by the letter
def compatible(left: Row, right: Row, on: frozenset[str]) -> bool:
    values = dict(left)
    return all(values.get(v, value) == value for v, value in right if v in on)


def combined(kind: JoinKind, left: Bag, right: Bag, on: frozenset[str]) -> Bag:
    """The operator on two bags; ``on`` are the variables that it compares."""
    found: Bag = Counter()
    for a, n in left.items():
        partners = {b: m for b, m in right.items() if compatible(a, b, on)}
        if kind in ("inner", "optional"):
            for b, m in partners.items():
                found[a | b] += n * m
        if (kind in ("optional", "anti") and not partners) or (kind == "semi" and partners):
            found[a] += n
    return found


def evaluated(tree: OperatorTree, bags: Mapping[int, Bag]) -> Bag:
    if isinstance(tree, Leaf):
        return bags[tree.index]
    on = visible(tree.left) & visible(tree.right)
    return combined(tree.kind, evaluated(tree.left, bags), evaluated(tree.right, bags), on)


# ------------------------------------------------------------------ plans
Plan = int | tuple[JoinKind, "Plan", "Plan"]
"""A relation, or an operator over two plans."""


def plans(found: Sequence[TreeOperator], pairs: Sequence[tuple[RelationSet, RelationSet]], whole: RelationSet) -> list[Plan]:
    """All plans that ordered pairs allow."""
    sides: dict[RelationSet, list[tuple[RelationSet, RelationSet]]] = {}
    for left, right in pairs:
        sides.setdefault(left | right, []).append((left, right))

    @cache
    def of(relations: RelationSet) -> list[Plan]:
        if relations & (relations - 1) == 0:
            return [relations.bit_length() - 1]
        result: list[Plan] = []
        for left, right in sides.get(relations, []):
            operator = joining(found, left, right)
            assert operator is not None
            result += [(operator.kind, a, b) for a in of(left) for b in of(right)]
        return result

    return of(whole)


def run(plan: Plan, bags: Mapping[int, Bag], bound: Mapping[int, frozenset[str]], on: Mapping[int, frozenset[str]]) -> Bag:
    """A plan's rows. ``on`` has what an anti or semi join compares, by the relation it adds (others compare what both sides have)."""
    if isinstance(plan, int):
        return bags[plan]
    kind, left, right = plan
    both = names(left, bound) & names(right, bound)
    if kind in ("anti", "semi"):
        both = on.get(min(members(covered(right))), both)
    return combined(kind, run(left, bags, bound, on), run(right, bags, bound, on), both)


def covered(plan: Plan) -> RelationSet:
    return 1 << plan if isinstance(plan, int) else covered(plan[1]) | covered(plan[2])


def names(plan: Plan, bound: Mapping[int, frozenset[str]]) -> frozenset[str]:
    if isinstance(plan, int):
        return bound[plan]
    kind, left, right = plan
    return names(left, bound) | names(right, bound) if kind in ("inner", "optional") else names(left, bound)


def compared(tree: OperatorTree) -> dict[int, frozenset[str]]:
    """What each anti or semi join of the tree compares, by every relation on its right."""
    found: dict[int, frozenset[str]] = {}
    for node in nodes(tree):  # outermost first, so that the innermost is kept
        if node.kind in ("anti", "semi"):
            found |= dict.fromkeys(members(relations(node.right)), visible(node.left) & visible(node.right))
    return found


def every_split(relations: RelationSet) -> Iterator[tuple[RelationSet, RelationSet]]:
    """All ordered pairs of disjoint non-empty sets, smaller unions first."""
    everything = list(members(relations))
    for count in range(2, len(everything) + 1):
        for chosen in combinations(everything, count):
            whole = sum(1 << i for i in chosen)
            part = whole & -whole
            while part and part != whole:
                yield part, whole ^ part
                part = (part - whole) & whole


def every_plan(tree: OperatorTree) -> Iterator[Plan]:
    """Every tree of the relations with the operators' kinds, each used as often as in the tree, whatever its answers."""
    bound = {leaf.index: leaf.variables for leaf in leaves(tree)}
    kinds = Counter(node.kind for node in nodes(tree))

    def of(relations: RelationSet) -> Iterator[tuple[Plan, Counter[JoinKind]]]:
        if relations & (relations - 1) == 0:
            yield relations.bit_length() - 1, Counter()
            return
        part = relations & -relations
        while part != relations:
            rights = list(of(relations ^ part))
            for left, used in of(part):
                for right, more in rights:
                    if not names(left, bound) & names(right, bound):
                        continue
                    for kind in kinds:
                        if (whole := used + more + Counter([kind])) <= kinds:
                            yield (kind, left, right), whole
            part = (part - relations) & relations

    return (plan for plan, _ in of(relations(tree)))


def is_well_designed(tree: OperatorTree) -> bool:
    """Whether every operator compares only variables that are bound on every row of both its sides."""
    return all(
        carriers(side, x)[0]
        for node in nodes(tree)
        for x in visible(node.left) & visible(node.right)
        for side in (node.left, node.right)
    )


def hyperedges(found: Iterable[TreeOperator]) -> list[tuple[RelationSet, RelationSet]]:
    """For the enumeration (DPhyp): the least sets that satisfy what each operator needs on its left and its right."""
    return list(dict.fromkeys((a, b) for operator in found for a in _least(operator.left) for b in _least(operator.right)))


def _least(needs: Needs) -> list[RelationSet]:
    sets = {0}
    for need in needs:
        sets = {found | (0 if found & need else 1 << i) for found in sets for i in members(need)}
    return sorted(found for found in sets if not any(other != found and contains(found, other) for other in sets))
