"""What an independent evaluation is given, and what it returns. Terms are canonical N-Triples texts, times are milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Triple: TypeAlias = tuple[str, str, str]
Row: TypeAlias = frozenset[tuple[str, str]]
"""One row of an answer: (variable without question mark, term); an unbound variable is absent."""

Answers: TypeAlias = Counter[tuple[int, str, Row]]
"""How often each (time, ``+`` ``-`` or ``=``, row) occurs."""

Evaluator: TypeAlias = Literal["auto", "pyoxigraph", "rdflib"]


@dataclass(frozen=True, slots=True)
class Element:
    """A stream element: a triple or a whole graph with one time. ``graph`` is the name of its graph, where it has one; ``about`` is what
    the default graph of its file says of it."""

    t: int
    triples: tuple[Triple, ...]
    graph: str | None = None
    about: tuple[Triple, ...] = ()

    @property
    def all(self) -> tuple[Triple, ...]:
        """The triples of the graph, and those of the default graph about it, each once: what a window holds of the element."""
        return tuple(dict.fromkeys((*self.triples, *self.about)))


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Other static data, which count from an instant on."""

    at: int
    default: list[Triple]
    graphs: Mapping[str, list[Triple]]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a query reads: elements by stream IRI in order of arrival, the static default graph, the static named graphs.

    IRIs that are keys may be written with or without angle brackets. ``later`` are the static data that take the place of those before,
    in order of time.
    """

    streams: Mapping[str, list[Element]]
    default: list[Triple] = field(default_factory=list)
    graphs: Mapping[str, list[Triple]] = field(default_factory=dict)
    later: tuple[Refreshed, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """How answers are put out (SEMANTICS §3, §4).

    ``policy`` is a list of ``cc``, ``wc``, ``nc`` and ``p:MILLISECONDS`` with commas, ``policies`` has the exceptions by window
    name; ``t0`` and ``t0s`` likewise. ``until`` is where the input ends, if not with the last element that the query reads. Without
    ``operator`` the query's own counts, and ISTREAM where it has none. Late elements are dropped before
    (:func:`cqels_opt.verify.inputs.drop_late`), file by file.
    """

    policy: str = "cc"
    policies: Mapping[str, str] = field(default_factory=dict)
    operator: str | None = None
    duplicates: Literal["bag", "set"] = "bag"
    t0: int = 0
    t0s: Mapping[str, int] = field(default_factory=dict)
    drain: bool = False
    until: int | None = None
    evaluator: Evaluator = "auto"


def bare(iri: str) -> str:
    """An IRI without angle brackets."""
    return iri[1:-1] if iri.startswith("<") else iri
