"""MINUS without a shared variable removes no row (SPARQL 1.1 §18.5, Minus)."""

from __future__ import annotations

from cqels_opt.compiler.passes.traversal import bottom_up
from cqels_opt.query import algebra as a
from cqels_opt.query.visible import visible


def drop_disjoint_minus(body: a.Algebra, query: a.Query) -> a.Algebra:
    """Replaces a MINUS by its left side where the sides have no variable in common.

    ::

        before: (minus (bgp (?a :p ?b)) (bgp (?c :q ?d)))
        after:  (bgp (?a :p ?b))
    """

    def dropped(node: a.Algebra) -> a.Algebra:
        if isinstance(node, a.Minus) and not _bindable(node.left) & _bindable(node.right):
            return node.left
        return node

    return bottom_up(dropped, body)


def _bindable(node: a.Algebra) -> set[a.Variable]:
    """The variables that a pattern can bind. A sub-select may name others, which stay unbound."""
    match node:
        case a.Project(inner, variables):
            return _bindable(inner) & set(variables)
        case a.Join(left, right) | a.LeftJoin(left, right) | a.Union(left, right):
            return _bindable(left) | _bindable(right)
        case a.Filter(inner) | a.Minus(inner) | a.Distinct(inner) | a.OrderBy(inner) | a.Slice(inner):
            return _bindable(inner)
        case a.Extend(inner, variable):
            return _bindable(inner) | {variable}
    return set(visible(node))
