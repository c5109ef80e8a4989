"""Property paths: from their syntax to the algebra (SPARQL 1.1 §18.2.2.3, §18.2.2.4 and §18.4).

Paths of fixed length become patterns over fresh variables: ``/`` is a join, ``|`` a UNION, ``^`` swaps the ends, and ``!(…)`` is
a pattern with a filter on the predicate. ``*``, ``+`` and ``?`` become a :class:`~cqels_opt.query.algebra.Closure` of their step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from cqels_opt.query import algebra as a
from cqels_opt.query.chains import chained
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.graphs import join, unit
from cqels_opt.query.names import RDF_TYPE
from cqels_opt.query.reading import Branch, Reading, branches, tokens
from cqels_opt.query.visible import visible


def read_path(reading: Reading, path: Branch, start: a.Node, end: a.Node, source: a.Source) -> list[a.TriplePattern | a.Algebra]:
    """The patterns whose join is ``start path end``."""
    match path.data:
        case "variable":
            return [a.TriplePattern(start, reading.variable(path), end)]
        case "iri" | "rdf_type":
            return [a.TriplePattern(start, _predicate(reading, path), end)]
        case "path_inverse":
            return read_path(reading, branches(path)[0], end, start, source)
        case "path_sequence":
            first, second = branches(path)
            middle = _fresh(reading)
            return [*read_path(reading, first, start, middle, source), *read_path(reading, second, middle, end, source)]
        case "path_alternative":
            ways = [together(read_path(reading, part, start, end, source), source) for part in _alternatives(path)]
            return [chained(ways, a.Union)]
        case "path_negated":
            return [_negated(reading, path, start, end, source)]
        case _:
            return [_repeated(reading, path, start, end, source)]


def together(found: Sequence[a.TriplePattern | a.Algebra], source: a.Source) -> a.Algebra:
    """The join of patterns; their triple patterns form one basic graph pattern."""
    triples = tuple(part for part in found if isinstance(part, a.TriplePattern))
    whole: a.Algebra = a.Bgp(triples, source) if triples else unit(source)
    for part in found:
        if not isinstance(part, a.TriplePattern):
            whole = join(whole, part)
    return whole


def _alternatives(path: Branch) -> list[Branch]:
    """The operands of ``a | b | c``, a left-deep chain that may be long."""
    found: list[Branch] = []
    while path.data == "path_alternative":
        path, last = branches(path)
        found.append(last)
    return [path, *reversed(found)]


def _fresh(reading: Reading) -> a.Variable:
    """A fresh variable that a query cannot name, like a blank node."""
    return a.Variable(f"_:.{reading.number('blank')}")


def _predicate(reading: Reading, tree: Branch) -> str:
    """An IRI or ``a``, alone or as a member of a negated set."""
    inside = branches(tree)
    if tree.data == "iri":
        return read_iri(reading, tree)
    return read_iri(reading, inside[0]) if inside else RDF_TYPE


def _negated(reading: Reading, path: Branch, start: a.Node, end: a.Node, source: a.Source) -> a.Algebra:
    """``!(…)``: forward over the plain members and backward over the inverse members, if any."""
    plain = [_predicate(reading, part) for part in branches(path) if part.data == "path_one"]
    inverse = [_predicate(reading, part) for part in branches(path) if part.data == "path_one_inverse"]
    parts = []
    if plain or not inverse:
        parts.append(_predicate_not_in(reading, plain, start, end, source))
    if inverse:
        parts.append(_predicate_not_in(reading, inverse, end, start, source))
    return reduce(a.Union, parts)


def _predicate_not_in(reading: Reading, predicates: Sequence[str], start: a.Node, end: a.Node, source: a.Source) -> a.Algebra:
    predicate = _fresh(reading)
    pattern = a.Bgp((a.TriplePattern(start, predicate, end),), source)
    if not predicates:
        return pattern
    return a.Filter(pattern, a.Call("NOT IN", (predicate, *map(a.Constant, predicates))))


def _repeated(reading: Reading, path: Branch, start: a.Node, end: a.Node, source: a.Source) -> a.Algebra:
    if isinstance(start, a.TripleTerm):
        whole = _fresh(reading)
        return decomposed(reading, _repeated(reading, path, whole, end, source), whole, start)
    if isinstance(end, a.TripleTerm):
        whole = _fresh(reading)
        return decomposed(reading, _repeated(reading, path, start, whole, source), whole, end)
    sign = tokens(path)[-1].type
    here, there = _fresh(reading), _fresh(reading)
    step = together(read_path(reading, branches(path)[0], here, there, source), source)
    nodes = None
    if sign != "PLUS":
        plain = isinstance(start, a.Variable) and isinstance(end, a.Variable)
        nodes = _nodes(reading, here, source) if plain else unit(source)
    return a.Closure(step, nodes, here, there, start, end, sign != "QUESTION", source)


def decomposed(reading: Reading, pattern: a.Algebra, whole: a.Variable, term: a.TripleTerm) -> a.Algebra:
    """The rows in which a variable is a triple term of this form, with the variables of the form bound."""
    found: a.Algebra = a.Filter(pattern, a.Call("ISTRIPLE", (whole,)))
    for name, part in (("SUBJECT", term.s), ("PREDICATE", term.p), ("OBJECT", term.o)):
        value = a.Call(name, (whole,))
        if isinstance(part, a.TripleTerm):
            inner = _fresh(reading)
            found = decomposed(reading, a.Extend(found, inner, value), inner, part)
        elif isinstance(part, a.Variable) and part not in visible(found):
            found = a.Extend(found, part, value)
        else:
            found = a.Filter(found, a.Call("SAMETERM", (part if isinstance(part, a.Variable) else a.Constant(part), value)))
    return found


def _nodes(reading: Reading, node: a.Variable, source: a.Source) -> a.Algebra:
    """All subjects and objects of the active graph."""
    predicate, other = _fresh(reading), _fresh(reading)
    ways = [a.TriplePattern(node, predicate, other), a.TriplePattern(other, predicate, node)]
    found = a.Union(a.Bgp((ways[0],), source), a.Bgp((ways[1],), source))
    graph = a.graph_in(source)
    return a.Distinct(a.Project(found, (node, graph) if isinstance(graph, a.Variable) else (node,)))
