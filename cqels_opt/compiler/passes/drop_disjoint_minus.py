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
        if isinstance(node, a.Minus) and not set(visible(node.left)) & set(visible(node.right)):
            return node.left
        return node

    return bottom_up(dropped, body)
