"""What the evaluation needs of a SPARQL engine: graphs that change, and a query's text over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from cqels_opt.verify.model import Row, Triple

TIMESTAMP = "http://larkc.eu/csparql/sparql/jena/ext#timestamp"


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
