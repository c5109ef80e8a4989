"""pyoxigraph as the SPARQL engine, the default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyoxigraph as ox

from cqels_opt.errors import RunError
from cqels_opt.verify.heads import hidden
from cqels_opt.verify.literals import literal_parts
from cqels_opt.verify.model import Row, Triple
from cqels_opt.verify.quoted import FUNCTIONS, text_of, to_triple
from cqels_opt.verify.sparql_engine import TIMESTAMP, extension_functions
from cqels_opt.verify.tokens import apply, tokens
from cqels_opt.verify.uncertainty import Function

_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
_XSD_BOOLEAN = "http://www.w3.org/2001/XMLSchema#boolean"


class Oxigraph:
    """pyoxigraph. Its store keeps the values of numbers and times, not their lexical forms: ``"1.50"`` becomes ``"1.5"``.

    The original form is restored where only one term of the input has that value. :attr:`confused` lists the values that several
    input terms share, so that pyoxigraph would identify them; :attr:`lossy` says whether any term has another form in the store.
    """

    name = "pyoxigraph"

    def __init__(self) -> None:
        self._store = ox.Store()
        self._terms: dict[str, Any] = {}
        self._originals: dict[str, set[str]] = {}
        self.lossy = False
        self.times: Mapping[Triple, int] = {}

    @property
    def confused(self) -> list[set[str]]:
        """Sets of different input terms that pyoxigraph cannot distinguish."""
        return [texts for texts in self._originals.values() if len(texts) > 1]

    def know(self, triples: Iterable[Triple]) -> None:
        """Registers the terms of triples that may be added later."""
        for triple in triples:
            for text in triple:
                self._term(text)

    def add(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """See :class:`SparqlEngine`."""
        name = self._graph(graph)
        if graph is not None:
            self._store.add_graph(name)
        self._store.extend([ox.Quad(self._term(s), self._term(p), self._term(o), name) for s, p, o in triples])

    def remove(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """See :class:`SparqlEngine`."""
        name = self._graph(graph)
        for s, p, o in triples:
            self._store.remove(ox.Quad(self._term(s), self._term(p), self._term(o), name))

    def select(self, text: str) -> Counter[Row]:
        """See :class:`SparqlEngine`."""
        text = _without_spaces(text)
        try:
            found: Any = self._store.query(text, custom_functions=self._functions())
            names = [v.value for v in found.variables]
            shown = [(i, name) for i, name in enumerate(names) if not hidden(name)]
            rows = ([(name, solution[i]) for i, name in shown] for solution in found)
            return Counter(frozenset((name, self._text(term)) for name, term in row if term is not None) for row in rows)
        except (SyntaxError, OSError, RuntimeError, ValueError) as error:
            raise RunError(f"pyoxigraph cannot evaluate the rewritten query: {error}\n{text}") from error

    def _functions(self) -> dict[Any, Any]:
        """The functions that SPARQL does not define."""
        own = {ox.NamedNode(name): self._custom(function) for name, function in extension_functions().items()}
        return {ox.NamedNode(TIMESTAMP): self._timestamp, **FUNCTIONS, **own}

    def _custom(self, function: Function) -> Any:
        def call(*arguments: Any) -> Any:
            found = function(*map(from_oxigraph, arguments))
            return None if found is None else to_oxigraph(found)

        return call

    def _timestamp(self, *triple: Any) -> Any:
        """C-SPARQL's function; None is an error."""
        found = self.times.get((self._text(triple[0]), self._text(triple[1]), self._text(triple[2])))
        return None if found is None else ox.Literal(found)

    def _graph(self, graph: str | None) -> Any:
        if graph is None:
            return ox.DefaultGraph()
        return ox.BlankNode(graph[2:]) if graph.startswith("_:") else ox.NamedNode(graph)

    def _term(self, text: str) -> Any:
        term = self._terms.get(text)
        if term is None:
            term = self._terms[text] = to_oxigraph(text)
            if isinstance(term, ox.Triple):
                self._term(from_oxigraph(term.subject))
                self._term(from_oxigraph(term.object))
            if isinstance(term, ox.Literal) and not term.language and term.datatype.value != _XSD_STRING:
                self._record(text, term)
        return term

    def _record(self, text: str, term: Any) -> None:
        """Records the input text of a literal, and whether the store changes more than its lexical form."""
        kept = _round_trip(term)
        stored = from_oxigraph(kept)
        originals = self._originals.setdefault(stored, set())
        originals.add(text)
        if stored != text:
            self.lossy = True
            if kept.datatype != term.datatype or kept.datatype.value == _XSD_BOOLEAN:
                originals.add(stored)

    def _text(self, term: Any) -> str:
        if isinstance(term, ox.Triple):
            return f"<<( {self._text(term.subject)} {term.predicate} {self._text(term.object)} )>>"
        text = from_oxigraph(term)
        originals = self._originals.get(text, ())
        return next(iter(originals)) if len(originals) == 1 else text


def to_oxigraph(text: str) -> Any:
    """A pyoxigraph term of a canonical text."""
    if text.startswith("<<("):
        return to_triple(text)
    if text.startswith("<"):
        return ox.NamedNode(text[1:-1])
    if text.startswith("_:"):
        return ox.BlankNode(text[2:])
    value, datatype, language = literal_parts(text)
    if language and "--" in language:
        tag, _, way = language.partition("--")
        return ox.Literal(value, language=tag, direction=ox.BaseDirection(way))
    if language:
        return ox.Literal(value, language=language)
    return ox.Literal(value, datatype=ox.NamedNode(datatype)) if datatype else ox.Literal(value)


def stored(text: str) -> str:
    """The canonical text of what the store has for a term: numbers and times of equal values have one form."""
    term = to_oxigraph(text)
    is_value = isinstance(term, ox.Literal) and not term.language and term.datatype.value != _XSD_STRING
    return from_oxigraph(_round_trip(term)) if is_value else text


def from_oxigraph(term: Any) -> str:
    """The canonical text of a pyoxigraph term."""
    return text_of(term)


def _round_trip(term: Any) -> Any:
    """A literal after a round trip through pyoxigraph's store."""
    store, node = ox.Store(), ox.NamedNode("urn:x")
    store.add(ox.Quad(node, node, term))
    return next(iter(store)).object


def _without_spaces(text: str) -> str:
    """The text without spaces between COALESCE or CONCAT and the bracket, which pyoxigraph's parser does not accept."""
    found = tokens(text)
    spaces = [
        (space.start, space.end, "")
        for word, space, bracket in zip(found, found[1:], found[2:])
        if word.word() in ("COALESCE", "CONCAT") and space.kind == "space" and bracket.text == "("
    ]
    return apply(text, spaces) if spaces else text
