"""The inputs, options and results of the independent evaluation. Terms are canonical N-Triples texts, times are milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Triple: TypeAlias = tuple[str, str, str]
Row: TypeAlias = frozenset[tuple[str, str]]
"""One row of an answer: (variable without question mark, term); an unbound variable is absent."""

Answers: TypeAlias = Counter[tuple[int, str, Row]]
"""The number of occurrences of each (time, ``+`` ``-`` or ``=``, row)."""

Evaluator: TypeAlias = Literal["auto", "pyoxigraph", "rdflib"]


@dataclass(frozen=True, slots=True)
class Element:
    """A stream element: a triple or a whole graph with one time.

    ``graph`` is the name of its graph, if any; ``about`` are the triples about it in the default graph of its file.
    """

    t: int
    triples: tuple[Triple, ...]
    graph: str | None = None
    about: tuple[Triple, ...] = ()

    @property
    def all(self) -> tuple[Triple, ...]:
        """The distinct triples of the graph and of the default graph about it: what a window holds of the element."""
        return tuple(dict.fromkeys((*self.triples, *self.about)))


@dataclass(frozen=True, slots=True)
class Refreshed:
    """New static data, valid from an instant onwards."""

    at: int
    default: list[Triple]
    graphs: Mapping[str, list[Triple]]


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs of a query: elements by stream IRI in order of arrival, the static default graph, the static named graphs.

    IRIs that are keys may be written with or without angle brackets. ``later`` are versions of the static data that replace
    earlier ones, in time order.
    """

    streams: Mapping[str, list[Element]]
    default: list[Triple] = field(default_factory=list)
    graphs: Mapping[str, list[Triple]] = field(default_factory=dict)
    later: tuple[Refreshed, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """How answers are computed and emitted (SEMANTICS §3, §4).

    ``policy`` is a comma-separated list of ``cc``, ``ea``, ``wc``, ``nc`` and ``p:MILLISECONDS``, ``policies`` has the exceptions by
    window name; ``t0`` and ``t0s`` likewise. ``until`` is the end of the input, by default the time of the last element that the
    query reads. Without ``operator`` the query's own operator is used, ISTREAM by default. Late elements must be dropped before
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
