"""The interface of a SPARQL engine for the evaluation: mutable graphs, and queries over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from cqels_opt.verify.blank_nodes import BLANK, blank_node
from cqels_opt.verify.model import Row, Triple
from cqels_opt.verify.uncertainty import Function, functions

TIMESTAMP = "http://larkc.eu/csparql/sparql/jena/ext#timestamp"


def extension_functions() -> Mapping[str, Function]:
    """The functions that SPARQL does not define, by IRI; they map term texts to a term text, None is an error."""
    return {BLANK: blank_node, **functions()}


class SparqlEngine(Protocol):
    """A SPARQL engine for the evaluation."""

    name: str
    times: Mapping[Triple, int]
    """For C-SPARQL's timestamp(): the latest time of each triple that the windows hold."""

    def add(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """Adds triples to a named graph or to the default graph."""

    def remove(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """Removes triples."""

    def select(self, text: str) -> Counter[Row]:
        """The bag of a SELECT query's rows."""
