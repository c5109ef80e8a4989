"""Property paths: from their syntax to the algebra (SPARQL 1.1 §18.2.2.3, §18.2.2.4 and §18.4).

Paths of fixed length become patterns over fresh variables: ``/`` is a join, ``|`` a UNION, ``^`` swaps the ends, and ``!(…)`` is
a pattern with a filter on the predicate. ``*``, ``+`` and ``?`` become a :class:`~cqels_opt.query.algebra.Closure` of their step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from cqels_opt.query.algebra import (
    Algebra,
    Bgp,
    Call,
    Closure,
    Constant,
    Distinct,
    Extend,
    Filter,
    Node,
    Project,
    Source,
    TriplePattern,
    TripleTerm,
    Union,
    Variable,
    graph_in,
)
from cqels_opt.query.chains import chained
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.graphs import join, unit
from cqels_opt.query.names import RDF_TYPE
from cqels_opt.query.reading import Branch, Reading, branches, tokens
from cqels_opt.query.visible import visible


def read_path(reading: Reading, path: Branch, start: Node, end: Node, source: Source) -> list[TriplePattern | Algebra]:
    """The patterns whose join is ``start path end``."""
    match path.data:
        case "variable":
            return [TriplePattern(start, reading.variable(path), end)]
        case "iri" | "rdf_type":
            return [TriplePattern(start, _predicate(reading, path), end)]
        case "path_inverse":
            return read_path(reading, branches(path)[0], end, start, source)
        case "path_sequence":
            first, second = branches(path)
            middle = _fresh(reading)
            return [*read_path(reading, first, start, middle, source), *read_path(reading, second, middle, end, source)]
        case "path_alternative":
            ways = [together(read_path(reading, part, start, end, source), source) for part in _alternatives(path)]
            return [chained(ways, Union)]
        case "path_negated":
            return [_negated(reading, path, start, end, source)]
        case _:
            return [_repeated(reading, path, start, end, source)]


def together(found: Sequence[TriplePattern | Algebra], source: Source) -> Algebra:
    """The join of patterns; their triple patterns form one basic graph pattern."""
    triples = tuple(part for part in found if isinstance(part, TriplePattern))
    whole: Algebra = Bgp(triples, source) if triples else unit(source)
    for part in found:
        if not isinstance(part, TriplePattern):
            whole = join(whole, part)
    return whole


def _alternatives(path: Branch) -> list[Branch]:
    """The operands of ``a | b | c``, a left-deep chain that may be long."""
    found: list[Branch] = []
    while path.data == "path_alternative":
        path, last = branches(path)
        found.append(last)
    return [path, *reversed(found)]


def _fresh(reading: Reading) -> Variable:
    """A fresh variable that a query cannot name, like a blank node."""
    return Variable(f"_:.{reading.number('blank')}")


def _predicate(reading: Reading, tree: Branch) -> str:
    """An IRI or ``a``, alone or as a member of a negated set."""
    inside = branches(tree)
    if tree.data == "iri":
        return read_iri(reading, tree)
    return read_iri(reading, inside[0]) if inside else RDF_TYPE


def _negated(reading: Reading, path: Branch, start: Node, end: Node, source: Source) -> Algebra:
    """``!(…)``: forward over the plain members and backward over the inverse members, if any."""
    plain = [_predicate(reading, part) for part in branches(path) if part.data == "path_one"]
    inverse = [_predicate(reading, part) for part in branches(path) if part.data == "path_one_inverse"]
    parts = []
    if plain or not inverse:
        parts.append(_predicate_not_in(reading, plain, start, end, source))
    if inverse:
        parts.append(_predicate_not_in(reading, inverse, end, start, source))
    return reduce(Union, parts)


def _predicate_not_in(reading: Reading, predicates: Sequence[str], start: Node, end: Node, source: Source) -> Algebra:
    predicate = _fresh(reading)
    pattern = Bgp((TriplePattern(start, predicate, end),), source)
    if not predicates:
        return pattern
    return Filter(pattern, Call("NOT IN", (predicate, *map(Constant, predicates))))


def _repeated(reading: Reading, path: Branch, start: Node, end: Node, source: Source) -> Algebra:
    if isinstance(start, TripleTerm):
        whole = _fresh(reading)
        return taken_apart(reading, _repeated(reading, path, whole, end, source), whole, start)
    if isinstance(end, TripleTerm):
        whole = _fresh(reading)
        return taken_apart(reading, _repeated(reading, path, start, whole, source), whole, end)
    sign = tokens(path)[-1].type
    here, there = _fresh(reading), _fresh(reading)
    step = together(read_path(reading, branches(path)[0], here, there, source), source)
    nodes = None
    if sign != "PLUS":
        plain = isinstance(start, Variable) and isinstance(end, Variable)
        nodes = _nodes(reading, here, source) if plain else unit(source)
    return Closure(step, nodes, here, there, start, end, sign != "QUESTION", source)


def taken_apart(reading: Reading, pattern: Algebra, whole: Variable, term: TripleTerm) -> Algebra:
    """The rows in which a variable is a triple term of this form, with the variables of the form bound."""
    found: Algebra = Filter(pattern, Call("ISTRIPLE", (whole,)))
    for name, part in (("SUBJECT", term.s), ("PREDICATE", term.p), ("OBJECT", term.o)):
        value = Call(name, (whole,))
        if isinstance(part, TripleTerm):
            inner = _fresh(reading)
            found = taken_apart(reading, Extend(found, inner, value), inner, part)
        elif isinstance(part, Variable) and part not in visible(found):
            found = Extend(found, part, value)
        else:
            found = Filter(found, Call("SAMETERM", (part if isinstance(part, Variable) else Constant(part), value)))
    return found


def _nodes(reading: Reading, node: Variable, source: Source) -> Algebra:
    """All subjects and objects of the active graph."""
    predicate, other = _fresh(reading), _fresh(reading)
    ways = [TriplePattern(node, predicate, other), TriplePattern(other, predicate, node)]
    found = Union(Bgp((ways[0],), source), Bgp((ways[1],), source))
    graph = graph_in(source)
    return Distinct(Project(found, (node, graph) if isinstance(graph, Variable) else (node,)))
