"""The query forms CONSTRUCT, ASK and DESCRIBE, as operators above the solutions of a query (SPARQL 1.1 §16.2 to §16.4).

The answer of a CONSTRUCT or DESCRIBE is a graph, a set of triples: rows of the columns :data:`TRIPLE`, each valid while some solution
gives it. The answer of an ASK is one row, ``true`` or ``false``, at every instant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations
from typing import Final, TypeAlias

from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.algebra.triple import TRIPLE, FreshBlank, Place, QuotedPlace, TripleNode
from cqels_opt.query import algebra as a
from cqels_opt.rdf.terms import XSD_INTEGER, literal

TRUTH: Final = ".boolean"
"""The column of an ASK's answer."""

NAMED: Final = ".named"
"""The column of the resources that a DESCRIBE names."""

_SOLUTIONS, _ZERO = a.Variable(".solutions"), a.Constant(literal("0", XSD_INTEGER))


def answer_variables(query: a.Query) -> tuple[str, ...]:
    """The columns of a query's answers; those that are not the query's variables begin with a full stop."""
    if query.form is None:
        return tuple(v.name for v in query.variables)
    return (TRUTH,) if isinstance(query.form, a.Ask) else TRIPLE


def body(query: a.Query) -> a.Algebra:
    """The pattern to evaluate: that of the query's solutions, and for an ASK whether there are any."""
    if not isinstance(query.form, a.Ask):
        return query.body
    counted = a.Group(query.body, (), ((_SOLUTIONS, a.Aggregate("COUNT", None)),), implicit=True)
    truth = a.Variable(TRUTH)
    return a.Project(a.Extend(counted, truth, a.Call(">", (_SOLUTIONS, _ZERO))), (truth,))


def read_above(query: a.Query) -> set[str]:
    """The variables of the body from which the answers are made."""
    match query.form:
        case a.Construct(template):
            nodes = [variable for triple in template for variable in triple.variables]
            named = {node.name for node in nodes if not _blank(node)}
            return named if not any(map(_blank, nodes)) else {v.name for v in query.variables}
        case a.Describe(nodes):
            return {variable.name for variable in a.variables_in(*nodes)}
    return set(answer_variables(query))


def above(query: a.Query, tree: p.Tree, code: Callable[[str], int], graph: Callable[[a.Algebra], p.Tree]) -> p.Tree:
    """The tree of the answers over the tree of the body. ``code`` returns the id of a term, ``graph`` compiles a pattern of triples."""
    match query.form:
        case a.Construct(template):
            return _constructed(query, template, tree, code)
        case a.Describe(nodes):
            return _described(query, nodes, tree, code, graph)
    return tree


# ------------------------------------------------------------------ CONSTRUCT
_Places: TypeAlias = tuple[Place, Place, Place]


def _constructed(query: a.Query, template: tuple[a.TriplePattern, ...], tree: p.Tree, code: Callable[[str], int]) -> p.Tree:
    solution = tuple(sorted(v.name for v in query.variables))
    seed = hashlib.sha256(query.text.encode()).hexdigest()

    def place(node: a.Node) -> Place:
        if isinstance(node, a.TripleTerm):
            return QuotedPlace(place(node.s), place(node.p), place(node.o))
        if not isinstance(node, a.Variable):
            return code(node)
        return FreshBlank(seed + node.name, solution) if _blank(node) else node

    triples: list[_Places] = [(place(t.s), place(t.p), place(t.o)) for t in dict.fromkeys(template)]
    # DISTINCT below a triple gives each of its instances once, so that only the instances that change are made again.
    parts = [TripleNode(p.DistinctNode(tree, _read(places)), places) for places in triples]
    if not parts:
        return p.ValuesNode(TRIPLE, ())
    whole = parts[0] if len(parts) == 1 else p.UnionNode(tuple(parts))
    return p.DistinctNode(whole, TRIPLE) if any(_may_agree(x, y) for x, y in combinations(triples, 2)) else whole


def _blank(variable: a.Variable) -> bool:
    """Whether a variable of a template is a blank node."""
    return variable.name.startswith("_:")


def _read(places: Sequence[Place]) -> tuple[str, ...]:
    """The variables by whose values the instances of a triple differ."""
    found: set[str] = set()
    for place in places:
        if isinstance(place, a.Variable):
            found.add(place.name)
        elif isinstance(place, FreshBlank):
            found.update(place.solution)
        elif isinstance(place, QuotedPlace):
            found.update(_read((place.s, place.p, place.o)))
    return tuple(sorted(found))


def _may_agree(one: _Places, other: _Places) -> bool:
    """Whether two triples of a template may have an instance in common."""
    made = (a.Variable, QuotedPlace)
    return all(isinstance(x, made) or isinstance(y, made) or x == y for x, y in zip(one, other))


# ------------------------------------------------------------------ DESCRIBE
def _described(
    query: a.Query, nodes: tuple[a.Name, ...], tree: p.Tree, code: Callable[[str], int], graph: Callable[[a.Algebra], p.Tree]
) -> p.Tree:
    """The graph is the union of the windows' contents and the static default graph."""
    s, predicate, o = map(a.Variable, TRIPLE)
    triple = (a.TriplePattern(s, predicate, o),)
    sources: list[a.Source] = [a.DefaultGraph(), *(a.InWindow(window.name) for window in query.windows)]
    patterns: list[a.Algebra] = [a.Bgp(triple, source) for source in sources]
    whole = graph(reduce(a.Union, patterns))
    asked = tuple(sorted(node.name for node in nodes if isinstance(node, a.Variable)))
    named = tuple((code(node),) for node in nodes if not isinstance(node, a.Variable))
    inputs: list[p.Tree] = [p.DistinctNode(tree, asked)] if asked else []
    if named:
        inputs.append(p.ValuesNode((NAMED,), named))
    resources = inputs[0] if len(inputs) == 1 else p.UnionNode(tuple(inputs))
    return p.DistinctNode(p.DescribeNode(resources, whole, (*asked, NAMED) if named else asked), TRIPLE)
