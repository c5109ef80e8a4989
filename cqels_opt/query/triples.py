"""Triples: from ``;`` and ``,`` lists, blank nodes and collections to triple patterns."""

from __future__ import annotations

from lark import Token

from cqels_opt.query.algebra import Node, TriplePattern, Variable
from cqels_opt.query.formulas import read_iri, read_literal
from cqels_opt.query.names import RDF_FIRST, RDF_NIL, RDF_REST, RDF_TYPE
from cqels_opt.query.reading import Branch, Reading, branches, tokens


def read_triples(reading: Reading, block: Branch, run: int) -> list[TriplePattern]:
    """The triple patterns of a ``triples_block``, in the order written; ``run`` is the number of their basic graph pattern."""
    found: list[TriplePattern] = []
    for triples in branches(block):
        subject, *properties = branches(triples)
        node = _node(reading, subject, run, found)
        if properties:
            _properties(reading, node, properties[0], run, found)
    return found


def _properties(reading: Reading, subject: Node, properties: Branch, run: int, found: list[TriplePattern]) -> None:
    children = branches(properties)
    for verb, objects in zip(children[::2], children[1::2]):
        predicate = _verb(reading, verb)
        for item in branches(objects):
            # The triple itself comes before those of a blank node or a collection in its object place.
            at = len(found)
            found.insert(at, TriplePattern(subject, predicate, _node(reading, item, run, found)))


def _verb(reading: Reading, verb: Branch) -> Node:
    path = branches(verb)[0]
    if path.data == "variable":
        return reading.variable(path)
    if path.data == "iri":
        return read_iri(reading, path)
    if path.data == "rdf_type":
        return RDF_TYPE
    reading.fail(path, "property paths are not supported yet: write a predicate IRI, 'a' or a variable")


def _node(reading: Reading, tree: Branch, run: int, found: list[TriplePattern]) -> Node:
    match tree.data:
        case "variable":
            return reading.variable(tree)
        case "iri":
            return read_iri(reading, tree)
        case "literal":
            return read_literal(reading, tree)
        case "nil":
            return RDF_NIL
        case "blank_node":
            return _labelled(reading, tokens(tree)[0], run) if tokens(tree) else _blank(reading)
        case "blank_node_with":
            node = _blank(reading)
            _properties(reading, node, branches(tree)[0], run, found)
            return node
        case _:
            return _collection(reading, branches(tree), run, found)


def _collection(reading: Reading, members: list[Branch], run: int, found: list[TriplePattern]) -> Node:
    cells = [_blank(reading) for _ in members]
    rests: list[Node] = [*cells[1:], RDF_NIL]
    for cell, rest, member in zip(cells, rests, members):
        at = len(found)
        found.insert(at, TriplePattern(cell, RDF_FIRST, _node(reading, member, run, found)))
        found.append(TriplePattern(cell, RDF_REST, rest))
    return cells[0]


def _blank(reading: Reading) -> Variable:
    return Variable(f"_:.{reading.number('blank')}")


def _labelled(reading: Reading, token: Token, run: int) -> Variable:
    if reading.labels.setdefault(token, run) != run:
        reading.fail(token, f"the blank node {token} is used in two basic graph patterns: use a variable instead")
    return Variable(str(token))
