"""Triples: from ``;`` and ``,`` lists, blank nodes, collections, reifiers and annotations to triple patterns.

As in SPARQL 1.2, ``<< s p o >>`` is a node ``_:r`` with ``_:r rdf:reifies <<( s p o )>>``.
"""

from __future__ import annotations

from typing import TypeAlias

from lark import Token

from cqels_opt.query.algebra import Algebra, Node, Source, TriplePattern, TripleTerm, Variable
from cqels_opt.query.formulas import read_iri, read_literal
from cqels_opt.query.names import RDF_FIRST, RDF_NIL, RDF_REIFIES, RDF_REST, RDF_TYPE
from cqels_opt.query.paths import read_path
from cqels_opt.query.reading import Branch, Reading, branches, only, tokens
from cqels_opt.rdf.terms import MAX_DEPTH, depth, triple

Patterns: TypeAlias = "list[TriplePattern | Algebra]"


def read_triples(reading: Reading, block: Branch, run: int, source: Source) -> Patterns:
    """The patterns of a ``triples_block`` in text order; ``run`` is the number of their basic graph pattern.

    They are triple patterns and the algebra of property paths, which are matched in ``source``.
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
            written, *notes = branches(item) if item.data == "annotated" else [item]
            # The triple itself precedes those of a blank node or a collection at its object position.
            at = len(found)
            node = _node(reading, written, run, source, found)
            path = branches(verb)[0]
            found[at:at] = read_path(reading, path, subject, node, source)
            if notes:
                _annotations(reading, subject, path, node, notes, run, source, found)


def _annotations(
    reading: Reading, s: Node, path: Branch, o: Node, notes: list[Branch], run: int, source: Source, found: Patterns
) -> None:
    """``s p o ~ r {| … |}``: the reifiers of the triple and their properties; a block without a reifier gets a fresh one."""
    if path.data not in ("variable", "iri", "rdf_type"):
        reading.fail(path, "a property path cannot be annotated: write a predicate IRI, 'a' or a variable")
    triple = _triple(reading, s, _predicate(reading, path), o, notes[0])
    reifier: Node | None = None
    for note in notes:
        if note.data == "reifier":
            reifier = _reifier(reading, note, run)
            found.append(TriplePattern(reifier, RDF_REIFIES, triple))
            continue
        if reifier is None:
            reifier = _blank(reading)
            found.append(TriplePattern(reifier, RDF_REIFIES, triple))
        _properties(reading, reifier, branches(note)[0], run, source, found)
        reifier = None


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
        case "triple_term":
            return _parts(reading, tree, run, source, found)
        case "reified_triple":
            triple = _parts(reading, tree, run, source, found)
            named = only(tree, "reifier")
            reifier = _blank(reading) if named is None else _reifier(reading, named, run)
            found.append(TriplePattern(reifier, RDF_REIFIES, triple))
            return reifier
        case _:
            return _collection(reading, branches(tree), run, source, found)


def _parts(reading: Reading, tree: Branch, run: int, source: Source, found: Patterns) -> Node:
    """The triple term of ``<<( s p o )>>``, or of ``<< s p o >>``, whose inner quoted triples are themselves reifiers."""
    subject, verb, item = branches(tree)[:3]
    s, o = (_node(reading, part, run, source, found) for part in (subject, item))
    return _triple(reading, s, _predicate(reading, verb), o, tree)


def _predicate(reading: Reading, verb: Branch) -> Node:
    match verb.data:
        case "variable":
            return reading.variable(verb)
        case "iri":
            return read_iri(reading, verb)
    return RDF_TYPE


def _triple(reading: Reading, s: Node, p: Node, o: Node, at: Branch) -> Node:
    """A triple term; a plain term if it has no variables."""
    if max(_depth(s), _depth(o)) >= MAX_DEPTH:
        reading.fail(at, f"triple terms are nested deeper than {MAX_DEPTH} levels")
    if isinstance(s, str) and isinstance(p, str) and isinstance(o, str):
        return triple(s, p, o)
    return TripleTerm(s, p, o)


def _depth(node: Node) -> int:
    if isinstance(node, TripleTerm):
        return 1 + max(_depth(node.s), _depth(node.o))
    return depth(node) if isinstance(node, str) else 0


def _reifier(reading: Reading, tree: Branch, run: int) -> Node:
    """The reifier after ``~``: a variable, an IRI, a blank node, or a fresh one if there is no name."""
    named = branches(tree)
    if not named:
        return _blank(reading)
    if named[0].data == "variable":
        return reading.variable(named[0])
    if named[0].data == "iri":
        return read_iri(reading, named[0])
    label = tokens(named[0])
    return _labelled(reading, label[0], run) if label else _blank(reading)


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
