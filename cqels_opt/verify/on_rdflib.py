"""rdflib as the SPARQL engine for second opinions, corrected in three places where it deviates from SPARQL 1.1:

- Rows of a joined sub-pattern are a bag; rdflib makes them a set.
- GROUP BY over no rows has no groups; rdflib makes one.
- Literals of different kinds cannot be compared (SPARQL 1.1 §17.4.1.7 RDFterm-equal, §17.3): ``"word" != 4`` is an error. rdflib
  returns a value, as does pyoxigraph for some pairs, as an extension that SPARQL 1.1 permits and SEMANTICS does not use.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import Any

import rdflib
from pyparsing import ParseBaseException
from rdflib.plugins.sparql import CUSTOM_EVALS, prepareQuery
from rdflib.plugins.sparql.algebra import traverse
from rdflib.plugins.sparql.evaluate import evalPart
from rdflib.plugins.sparql.operators import register_custom_function, unregister_custom_function
from rdflib.plugins.sparql.parserutils import CompValue, Expr
from rdflib.plugins.sparql.sparql import FrozenBindings, QueryContext, SPARQLError

from cqels_opt.errors import RunError
from cqels_opt.verify.heads import hidden
from cqels_opt.verify.literals import literal, literal_parts
from cqels_opt.verify.model import Row, Triple
from cqels_opt.verify.patterns import CALLS
from cqels_opt.verify.sparql_engine import TIMESTAMP, extension_functions
from cqels_opt.verify.strict import relation
from cqels_opt.verify.uncertainty import Function

_FAILURES = (ParseBaseException, SPARQLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Rdflib:
    """rdflib, which keeps lexical forms. Slower; the second engine, or the first where pyoxigraph confuses terms."""

    name = "rdflib"

    def __init__(self) -> None:
        self._data = rdflib.Dataset()
        self._terms: dict[str, Any] = {}
        self._prepared: dict[str, Any] = {}
        self.times: Mapping[Triple, int] = {}

    def add(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """See :class:`SparqlEngine`."""
        target = self._graph(graph)
        for triple in triples:
            target.add(tuple(map(self._term, triple)))

    def remove(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """See :class:`SparqlEngine`."""
        target = self._graph(graph)
        for triple in triples:
            target.remove(tuple(map(self._term, triple)))

    def select(self, text: str) -> Counter[Row]:
        """See :class:`SparqlEngine`."""
        CUSTOM_EVALS["cqels-opt bags"] = _corrected
        custom = {TIMESTAMP: self._timestamp, **{name: _custom(function) for name, function in extension_functions().items()}}
        for name, call in custom.items():
            register_custom_function(rdflib.URIRef(name), call, override=True)
        try:
            prepared = self._prepared.get(text)
            with _quiet(), _as_written():
                if prepared is None:
                    prepared = self._prepared[text] = prepareQuery(text)
                    traverse(prepared.algebra, visitPost=_correct)
                found = self._data.query(prepared)
                names = [v for v in found.vars or () if not hidden(v)]
                rows = [[(str(v), row.get(v)) for v in names] for row in found.bindings]
        except _FAILURES as error:
            # other errors are about objects of rdflib
            reason = str(error) if isinstance(error, SPARQLError) and str(error) else type(error).__name__
            raise RunError(f"rdflib cannot evaluate the rewritten query: {reason}") from error
        finally:
            del CUSTOM_EVALS["cqels-opt bags"]
            for name in custom:
                unregister_custom_function(rdflib.URIRef(name))
        return Counter(frozenset((name, _from_rdflib(term)) for name, term in row if term is not None) for row in rows)

    def _timestamp(self, *triple: Any) -> Any:
        """C-SPARQL's function."""
        found = self.times.get((_from_rdflib(triple[0]), _from_rdflib(triple[1]), _from_rdflib(triple[2])))
        if found is None:
            raise SPARQLError("no window holds the triple")
        return rdflib.Literal(found)

    def _graph(self, graph: str | None) -> Any:
        if graph is None:
            return self._data.default_graph
        with _quiet():
            return self._data.graph(rdflib.BNode(graph[2:]) if graph.startswith("_:") else rdflib.URIRef(graph))

    def _term(self, text: str) -> Any:
        term = self._terms.get(text)
        if term is None:
            term = self._terms[text] = _to_rdflib(text)
        return term


def _custom(function: Function) -> Any:
    """Adapts a function of term texts to rdflib."""

    def call(*arguments: Any) -> Any:
        found = function(*map(_from_rdflib, arguments))
        if found is None:
            raise SPARQLError("a function has no value")
        return _to_rdflib(found)

    return call


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses rdflib's warnings about its own deprecated names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@contextmanager
def _as_written() -> Iterator[None]:
    """Literals of the query keep their lexical forms: rdflib reads ``01`` as ``1``."""
    before, rdflib.NORMALIZE_LITERALS = rdflib.NORMALIZE_LITERALS, False
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS = before


def _corrected(context: QueryContext, part: CompValue) -> Iterable[FrozenBindings]:
    """Joins of bags, and GROUP BY over no rows."""
    if part.name == "Join" and not part.lazy:  # rdflib makes the right side a set, so that equal rows count once
        right = list(evalPart(context, part.p2))
        return (a.merge(b) for a in evalPart(context, part.p1) for b in right if a.compatible(b))
    if part.name == "AggregateJoin" and part.p.expr is not None and not any(True for _ in evalPart(context, part.p)):
        return ()  # rdflib makes one group of no rows even with GROUP BY
    raise NotImplementedError  # asks rdflib to evaluate any other part itself: the protocol of CUSTOM_EVALS


def _correct(node: Any) -> None:
    """Replaces comparisons by those of SPARQL 1.1, and regular expressions by linear-time ones."""
    if isinstance(node, Expr) and node.name == "RelationalExpression":
        node._evalfn = MethodType(relation, node)
    elif isinstance(node, Expr) and node.name in CALLS:
        node._evalfn = MethodType(CALLS[node.name], node)


def _to_rdflib(text: str) -> Any:
    if text.startswith("<<("):
        raise RunError(f"rdflib has no triple terms: {text[:80]}")
    if text.startswith("<"):
        return rdflib.URIRef(text[1:-1])
    if text.startswith("_:"):
        return rdflib.BNode(text[2:])
    value, datatype, language = literal_parts(text)
    return rdflib.Literal(value, lang=language, datatype=rdflib.URIRef(datatype) if datatype else None, normalize=False)


def _from_rdflib(term: Any) -> str:
    if isinstance(term, rdflib.Literal):
        return literal(str(term), str(term.datatype) if term.datatype else None, term.language)
    return f"_:{term}" if isinstance(term, rdflib.BNode) else f"<{term}>"
