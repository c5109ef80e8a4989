"""Triple terms in the independent evaluation, and quoted triples of RDF-star files, which pyoxigraph has no term for.

pyoxigraph is RDF 1.2: a triple term may be an object, and ``<< s p o >>`` is a node that reifies one. In RDF-star files the quoted triple
*is* the node, wherever it is quoted. It goes through pyoxigraph under a name, ``<urn:cqels-opt:quoted:…>``, with the text of the triple
term in hexadecimal digits; answers get the triple terms back, and functions of triple terms are ours, which know such names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import pyoxigraph as ox

from cqels_opt.verify.literals import literal
from cqels_opt.verify.tokens import Token

RDF_STAR = (".trigs", ".trigstar", ".ttls", ".ttlstar")
REIFIES = "http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies"
_QUOTED = "urn:cqels-opt:quoted:"
_NAMED = re.compile(f"<{_QUOTED}([0-9a-f]*)>")
_FUNCTION = "urn:cqels-opt:function:"
_OURS = ("ISTRIPLE", "SUBJECT", "PREDICATE", "OBJECT", "ISIRI", "ISURI")
_MADE = re.compile(r"[0-9a-f]{20,32}")


def text_of(term: Any, blank: Callable[[str], str] = "_:{}".format) -> str:
    """The canonical text of a pyoxigraph term; ``blank`` names blank nodes."""
    if isinstance(term, ox.BlankNode):
        return blank(term.value)
    if isinstance(term, ox.Triple):
        return f"<<( {text_of(term.subject, blank)} {term.predicate} {text_of(term.object, blank)} )>>"
    if isinstance(term, ox.Literal):
        direction = f"--{term.direction.value}" if term.direction is not None else ""
        return literal(term.value, term.datatype.value, term.language and f"{term.language}{direction}")
    return str(term)


def to_triple(text: str) -> Any:
    """The pyoxigraph term of a triple term's canonical text."""
    (triple,) = ox.parse(f"<urn:s> <urn:p> {text} .", format=ox.RdfFormat.N_TRIPLES)
    return triple.object


def reifiers(quads: Iterable[Any]) -> dict[str, Any]:
    """The triples that blank nodes without a label reify: what ``<< s p o >>`` stands for in a file."""
    return {
        quad.subject.value: quad.object
        for quad in quads
        if quad.predicate.value == REIFIES
        and isinstance(quad.object, ox.Triple)
        and isinstance(quad.subject, ox.BlankNode)
        and _MADE.fullmatch(quad.subject.value)
    }


def named(label: str, own: Mapping[str, Any], blank: Callable[[str], str]) -> str:
    """A blank node of an RDF-star file: a quoted triple under its name, or else as ``blank`` says."""
    if label not in own:
        return blank(label)
    written = unnamed(text_of(own[label], lambda inner: named(inner, own, blank)))
    return f"<{_QUOTED}{written.encode().hex()}>"


def is_named(text: str) -> bool:
    """Whether a term is the name of a quoted triple."""
    return text.startswith(f"<{_QUOTED}")


def makes_triples(found: list[Token]) -> bool:
    """Whether a text has triple terms but as what is reified: pyoxigraph's are never equal to names of quoted triples."""
    depth, word, before, matched = 0, "", "", False
    for token, after in pairwise(found):
        if token.word() == "TRIPLE" and after.text == "(":
            return True
        matched = matched or token.word() in ("SELECT", "ASK", "DESCRIBE", "WHERE")  # a template is made, not matched
        if matched and token.text == "<<" and after.text == "(" and not before.endswith(("reifies", "reifies>")):
            return True
        before = token.text
        if token.word() in ("BIND", "FILTER", "VALUES", "HAVING") and not depth:
            word = token.word()
        if word and token.kind == "mark":
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(token.text, 0)
            word = word if depth or token.text not in (")", "}") else ""
            if token.text == "<<" and depth:
                return True
    return False


def unnamed(text: str) -> str:
    """A canonical text with the quoted triples themselves in the places of their names."""
    return _NAMED.sub(lambda found: bytes.fromhex(found[1]).decode(), text) if _QUOTED in text else text


# ------------------------------------------------------------------ functions of triple terms
def with_our_functions(found: list[Token]) -> list[tuple[int, int, str]]:
    """Edits of a text: calls of functions of triple terms as calls of :data:`FUNCTIONS`."""
    return [
        (token.start, token.end, f"<{_FUNCTION}{token.word()}>")
        for token, after in pairwise(found)
        if token.word() in _OURS and after.text == "("
    ]


def quoted_in_binds(found: list[Token]) -> list[tuple[int, int, str]]:
    """Edits of a text: ``BIND (<< s p o >> AS ?t)`` of SPARQL* as SPARQL 1.2 has it, ``BIND (<<( s p o )>> AS ?t)``."""
    edits, depth = list[tuple[int, int, str]](), 0
    for token, after in zip(found, [*found[1:], found[-1]]):
        depth = depth or int(token.word() == "BIND")
        if depth and token.kind == "mark":
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            depth = 0 if depth == 1 and token.text == ")" else depth
            if token.text == "<<" and after.text != "(":
                edits.append((token.start, token.end, "<<("))
            if token.text == ">>" and found[found.index(token) - 1].text != ")":
                edits.append((token.start, token.end, ")>>"))
    return edits


def _triple(term: Any) -> Any:
    """The triple that a term is, or whose name it is; None otherwise."""
    if isinstance(term, ox.NamedNode) and (name := _NAMED.fullmatch(str(term))):
        return _parts(bytes.fromhex(name[1]).decode())
    return (term.subject, term.predicate, term.object) if isinstance(term, ox.Triple) else None


def _parts(text: str) -> tuple[Any, Any, Any]:
    """The parts of a triple term whose subject may be one too, by its name."""
    inner = text.removeprefix("<<(").removesuffix(")>>").strip()
    if not inner.startswith("<<("):
        triple = to_triple(text)
        return triple.subject, triple.predicate, triple.object
    depth = end = 0
    for mark in re.finditer(r'<<\(|\)>>|"(?:[^"\\]|\\.)*"', inner):
        depth += {"<<(": 1, ")>>": -1}.get(mark[0], 0)
        if depth == 0:
            end = mark.end()
            break
    subject = ox.NamedNode(f"{_QUOTED}{inner[:end].encode().hex()}")
    rest = to_triple(f"<<( <urn:s> {inner[end:]} )>>")
    return subject, rest.predicate, rest.object


def _part(place: int) -> Callable[[Any], Any]:
    def run(term: Any) -> Any:
        found = _triple(term)
        return None if found is None else found[place]

    return run


def _is_iri(term: Any) -> Any:
    return ox.Literal(isinstance(term, ox.NamedNode) and _triple(term) is None)


FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    ox.NamedNode(f"{_FUNCTION}{name}"): run
    for name, run in (
        ("ISTRIPLE", lambda term: ox.Literal(_triple(term) is not None)),
        ("SUBJECT", _part(0)),
        ("PREDICATE", _part(1)),
        ("OBJECT", _part(2)),
        ("ISIRI", _is_iri),
        ("ISURI", _is_iri),
    )
}
"""By their IRIs; None is an error."""
