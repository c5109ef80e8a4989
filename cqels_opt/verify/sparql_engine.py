"""What the evaluation needs of a SPARQL engine: graphs that change, and a query's text over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from cqels_opt.verify.blank_nodes import BLANK, blank_node
from cqels_opt.verify.model import Row, Triple
from cqels_opt.verify.uncertainty import Function, functions

TIMESTAMP = "http://larkc.eu/csparql/sparql/jena/ext#timestamp"


def own_functions() -> Mapping[str, Function]:
    """The functions of terms' texts that SPARQL does not have, by their IRIs; None is an error."""
    return {BLANK: blank_node, **functions()}


class SparqlEngine(Protocol):
    """What the evaluation needs of a SPARQL engine."""

    name: str
    times: Mapping[Triple, int]
    """For C-SPARQL's timestamp(): when each triple that windows hold came last."""

    def add(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """Puts triples into a named graph, or into the default graph."""

    def remove(self, graph: str | None, triples: Iterable[Triple]) -> None:
        """Takes triples out again."""

    def select(self, text: str) -> Counter[Row]:
        """The bag of a SELECT query's rows."""
