"""Triple terms in the independent evaluation, and the quoted triples of RDF-star files, for which pyoxigraph has no term.

pyoxigraph implements RDF 1.2: a triple term may be an object, and ``<< s p o >>`` is a node that reifies one. In RDF-star files
the quoted triple *is* the node. pyoxigraph gets it as a name, ``<urn:cqels-opt:quoted:…>``, with the text of the triple term in
hexadecimal digits. Answers get the triple terms back, and our own versions of the functions on triple terms accept such names.
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
    """The triples that generated blank nodes reify: the meaning of ``<< s p o >>`` in a file."""
    return {
        quad.subject.value: quad.object
        for quad in quads
        if quad.predicate.value == REIFIES
        and isinstance(quad.object, ox.Triple)
        and isinstance(quad.subject, ox.BlankNode)
        and _MADE.fullmatch(quad.subject.value)
    }


def named(label: str, own: Mapping[str, Any], blank: Callable[[str], str]) -> str:
    """A blank node of an RDF-star file: the name of a quoted triple, or else ``blank`` of the label."""
    if label not in own:
        return blank(label)
    written = unnamed(text_of(own[label], lambda inner: named(inner, own, blank)))
    return f"<{_QUOTED}{written.encode().hex()}>"


def is_named(text: str) -> bool:
    """Whether a term is the name of a quoted triple."""
    return text.startswith(f"<{_QUOTED}")


def makes_triples(found: list[Token]) -> bool:
    """Whether a text has triple terms other than reified ones: pyoxigraph's are never equal to names of quoted triples."""
    depth, word, before, matched = 0, "", "", False
    for token, after in pairwise(found):
        if token.word() == "TRIPLE" and after.text == "(":
            return True
        matched = matched or token.word() in ("SELECT", "ASK", "DESCRIBE", "WHERE")  # a template is constructed, not matched
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
    """A canonical text with the names of quoted triples replaced by the triples."""
    return _NAMED.sub(lambda found: bytes.fromhex(found[1]).decode(), text) if _QUOTED in text else text


# ------------------------------------------------------------------ functions of triple terms
def with_our_functions(found: list[Token]) -> list[tuple[int, int, str]]:
    """Edits that replace calls of functions on triple terms by calls of :data:`FUNCTIONS`."""
    return [
        (token.start, token.end, f"<{_FUNCTION}{token.word()}>")
        for token, after in pairwise(found)
        if token.word() in _OURS and after.text == "("
    ]


def quoted_in_binds(found: list[Token]) -> list[tuple[int, int, str]]:
    """Edits from SPARQL*'s ``BIND (<< s p o >> AS ?t)`` to SPARQL 1.2's ``BIND (<<( s p o )>> AS ?t)``."""
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
    """The components of a triple term or of a name of a quoted triple; None for any other term."""
    if isinstance(term, ox.NamedNode) and (name := _NAMED.fullmatch(str(term))):
        return _parts(bytes.fromhex(name[1]).decode())
    return (term.subject, term.predicate, term.object) if isinstance(term, ox.Triple) else None


def _parts(text: str) -> tuple[Any, Any, Any]:
    """The components of a triple term; a subject that is a triple term becomes its name."""
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
"""The functions by IRI; None is an error."""
