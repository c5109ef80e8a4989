"""Triples: from ``;`` and ``,`` lists, blank nodes and collections to triple patterns."""

from __future__ import annotations

from typing import TypeAlias

from lark import Token

from cqels_opt.query.algebra import Algebra, Node, Source, TriplePattern, Variable
from cqels_opt.query.formulas import read_iri, read_literal
from cqels_opt.query.names import RDF_FIRST, RDF_NIL, RDF_REST
from cqels_opt.query.paths import read_path
from cqels_opt.query.reading import Branch, Reading, branches, tokens

Patterns: TypeAlias = "list[TriplePattern | Algebra]"


def read_triples(reading: Reading, block: Branch, run: int, source: Source) -> Patterns:
    """The patterns of a ``triples_block``, in the order written; ``run`` is the number of their basic graph pattern.

    They are triple patterns, and the algebra of property paths, which are matched in ``source``.
    """
    found: Patterns = []
    for triples in branches(block):
        subject, *properties = branches(triples)
        node = _node(reading, subject, run, source, found)
        if properties:
            _properties(reading, node, properties[0], run, source, found)
    return found


def _properties(reading: Reading, subject: Node, properties: Branch, run: int, source: Source, found: Patterns) -> None:
    children = branches(properties)
    for verb, objects in zip(children[::2], children[1::2]):
        for item in branches(objects):
            # The triple itself comes before those of a blank node or a collection in its object place.
            at = len(found)
            node = _node(reading, item, run, source, found)
            found[at:at] = read_path(reading, branches(verb)[0], subject, node, source)


def _node(reading: Reading, tree: Branch, run: int, source: Source, found: Patterns) -> Node:
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
            _properties(reading, node, branches(tree)[0], run, source, found)
            return node
        case _:
            return _collection(reading, branches(tree), run, source, found)


def _collection(reading: Reading, members: list[Branch], run: int, source: Source, found: Patterns) -> Node:
    cells = [_blank(reading) for _ in members]
    rests: list[Node] = [*cells[1:], RDF_NIL]
    for cell, rest, member in zip(cells, rests, members):
        at = len(found)
        found.insert(at, TriplePattern(cell, RDF_FIRST, _node(reading, member, run, source, found)))
        found.append(TriplePattern(cell, RDF_REST, rest))
    return cells[0]


def _blank(reading: Reading) -> Variable:
    return Variable(f"_:.{reading.number('blank')}")


def _labelled(reading: Reading, token: Token, run: int) -> Variable:
    if reading.labels.setdefault(token, run) != run:
        reading.fail(token, f"the blank node {token} is used in two basic graph patterns: use a variable instead")
    return Variable(str(token))
