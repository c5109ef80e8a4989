"""FROM NAMED: GRAPH matches only the named graphs of the query's dataset (SPARQL 1.1 §13.2.2)."""

from __future__ import annotations

from cqels_opt.compiler.passes.traversal import bottom_up
from cqels_opt.query import algebra as a
from cqels_opt.query.visible import visible


def restrict_named_graphs(body: a.Algebra, query: a.Query) -> a.Algebra:
    """Joins a graph variable with the names in the dataset; a graph outside the dataset matches nothing.

    With the dataset ``FROM NAMED :g1 FROM NAMED :g2``::

        before: (join (graph ?g (?a :p ?b)) (graph :g3 (?b :q ?c)))
        after:  (join (join (values (?g) (:g1) (:g2)) (graph ?g (?a :p ?b))) (values (?b ?c)))
    """
    if query.dataset is None:
        return body
    named = query.dataset.named

    def restricted(node: a.Algebra) -> a.Algebra:
        match node:
            case a.Bgp(_, a.NamedGraph(a.Variable() as graph)):
                return a.Join(a.Values((graph,), tuple((name,) for name in named)), node)
            case a.Bgp(_, a.NamedGraph(name)) if name not in named:
                return a.Values(visible(node), ())
        return node

    return bottom_up(restricted, body)
