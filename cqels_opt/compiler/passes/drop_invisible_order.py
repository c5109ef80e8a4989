"""ORDER BY is evaluated only where the order of rows is visible."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cqels_opt.compiler.passes.traversal import map_inputs
from cqels_opt.operators.stream_operators import stream_operator
from cqels_opt.query import algebra as a


def drop_invisible_order(body: a.Algebra, query: a.Query) -> a.Algebra:
    """Removes each ORDER BY unless LIMIT or OFFSET reads its order, or the order is that of an RSTREAM snapshot.

    In an ISTREAM query::

        before: (join (order (?b) (bgp (?a :p ?b))) (slice 0 5 (project (?b) (order (?c) (bgp (?b :q ?c))))))
        after:  (join (bgp (?a :p ?b)) (slice 0 5 (project (?b) (order (?c) (bgp (?b :q ?c))))))
    """
    visible = query.form is None and query.operator is not None and stream_operator(query.operator).whole
    return _dropped(body, visible=visible)


def _dropped(node: a.Algebra, *, visible: bool) -> a.Algebra:
    """The tree without its invisible orders. ``visible``: whether the order of the tree's own rows is."""
    if isinstance(node, a.OrderBy) and not visible:
        return _dropped(node.input, visible=False)
    if isinstance(node, a.Project | a.Distinct):
        return replace(node, input=_dropped(node.input, visible=visible))
    return map_inputs(partial(_dropped, visible=isinstance(node, a.Slice)), node)
