"""Prefixes, BASE and the terms that a query writes, as canonical N-Triples text."""

from __future__ import annotations

import difflib
import re
from typing import Final

from lark import Token, Tree

from cqels_opt.errors import option
from cqels_opt.rdf.terms import RDF, XSD, TermError, canonical, literal, unescape

WELL_KNOWN: Final = {
    "rdf": RDF,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": XSD,
    "owl": "http://www.w3.org/2002/07/owl#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://purl.oclc.org/NET/ssnx/ssn#",
    "prov": "http://www.w3.org/ns/prov#",
    "rspu": "http://w3id.org/rsp/rspu#",
}
"""Prefixes that an error message can complete; a query must still declare them."""

RDF_FIRST, RDF_REST, RDF_NIL, RDF_TYPE, RDF_REIFIES = (f"<{RDF}{name}>" for name in ("first", "rest", "nil", "type", "reifies"))
_NUMBERS = {"INTEGER": XSD + "integer", "DECIMAL": XSD + "decimal", "DOUBLE": XSD + "double"}
_LOCAL_ESCAPE, _UNESCAPED = re.compile(r"\\(.)"), r"\1"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class UnresolvedError(ValueError):
    """A name that cannot be resolved; the message is for the user."""


class Names:
    """The prefixes and the base in effect at a position of the prologue."""

    def __init__(self) -> None:
        self.prefixes: dict[str, str] = {}
        self.base: str | None = None

    def iri(self, token: Token) -> str:
        """The canonical term of an IRI or prefixed name."""
        if token.type == "IRIREF":
            return self.iri_of(token)
        prefix, local = token.split(":", 1)
        if prefix not in self.prefixes:
            raise UnresolvedError(self._undeclared(prefix))
        return f"<{self.prefixes[prefix]}{_LOCAL_ESCAPE.sub(_UNESCAPED, local)}>"

    def iri_of(self, token: Token) -> str:
        """The canonical term of an IRI in angle brackets, resolved against BASE (RFC 3986, §5.2)."""
        try:
            term = canonical(token)
        except TermError as error:
            raise UnresolvedError(str(error)) from error
        if self.base is None and not _SCHEME.match(term[1:-1]):
            raise UnresolvedError(
                f"{term} is a relative IRI, and the query has no BASE: write the whole IRI, or BASE <http://…/> before it"
                + option("", " (--base)")
            )
        return term if self.base is None else f"<{resolve(self.base, term[1:-1])}>"

    def _undeclared(self, prefix: str) -> str:
        message = f"the prefix '{prefix}:' is not declared"
        near = difflib.get_close_matches(prefix, self.prefixes, 1)
        if prefix in WELL_KNOWN:
            return f"{message}; add PREFIX {prefix}: <{WELL_KNOWN[prefix]}>"
        return f"{message}; did you mean '{near[0]}:'?" if near else f"{message}; add PREFIX {prefix}: <…> before SELECT"


_COMPONENTS: Final = re.compile(r"([^:/?#]+:)?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)


def resolve(base: str, reference: str) -> str:
    """Resolves an IRI reference against a base IRI, RFC 3986 §5.2.2."""
    if _SCHEME.match(reference):
        # An absolute IRI keeps its dot segments, as in N-Triples: otherwise the two would be different terms.
        return reference
    scheme, authority, path, query, _ = _components(base)
    _, new_authority, new_path, new_query, fragment = _components(reference)
    if new_authority:
        authority, path, query = new_authority, _without_dots(new_path), new_query
    elif not new_path:
        query = new_query or query
    else:
        before = "" if new_path.startswith("/") else path[: path.rfind("/") + 1] or "/" * bool(authority)
        path, query = _without_dots(before + new_path), new_query
    return scheme + authority + path + query + fragment


def _components(reference: str) -> tuple[str, str, str, str, str]:
    """Scheme, authority, path, query and fragment, with the characters that separate them, RFC 3986 appendix B."""
    found = _COMPONENTS.fullmatch(reference)
    assert found is not None  # it matches any text
    scheme, authority, path, query, fragment = (part or "" for part in found.groups())
    return scheme, authority, path, query, fragment


def _without_dots(path: str) -> str:
    """Removes dot segments, RFC 3986 §5.2.4."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def string_value(tree: Tree[Token]) -> str:
    """The text of a ``string`` rule, without quotation marks, unescaped."""
    token = tree.children[0]
    assert isinstance(token, Token)
    marks = 3 if token.type == "STRING_LONG" else 1
    try:
        return unescape(token[marks:-marks])
    except TermError as error:
        raise UnresolvedError(str(error)) from error


def literal_term(names: Names, tree: Tree[Token]) -> str:
    """The canonical term of a ``literal`` rule."""
    first = tree.children[0]
    assert isinstance(first, Tree)
    token = first.children[0]
    assert isinstance(token, Token)
    if first.data == "number":
        return number_term(token)
    if first.data == "boolean":
        return literal(token.lower(), XSD + "boolean")
    value, last = string_value(first), tree.children[-1]
    if isinstance(last, Token):
        return literal(value, language=last[1:])
    if last is not first:
        datatype = last.children[0]
        assert isinstance(datatype, Token)
        return literal(value, names.iri(datatype)[1:-1])
    return literal(value)


def number_term(token: Token, text: str | None = None) -> str:
    """The canonical term of a numeric token; ``text`` replaces its lexical form (for example, without the sign)."""
    return literal(str(token) if text is None else text, _NUMBERS[token.type.removeprefix("SIGNED_")])
