"""What is known while one query is printed: its dialect, the names that it may use, and how it says where a pattern is matched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NoReturn, TypeVar

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import (
    Aggregate,
    Algebra,
    Bgp,
    Call,
    Closure,
    DefaultGraph,
    Node,
    Query,
    Source,
    TriplePattern,
    TripleTerm,
    Variable,
    graph_in,
)
from cqels_opt.query.names import RDF_TYPE
from cqels_opt.rdf.terms import XSD

T = TypeVar("T")
_NUMBER = re.compile(rf'"([0-9]+)"\^\^<{re.escape(XSD)}integer>')
_TRUTH = re.compile(rf'"(true|false)"\^\^<{re.escape(XSD)}boolean>')


@dataclass
class Writing:
    """The state of one printing. ``default`` is where the patterns of the group in hand are matched; ``opened`` says what stands before
    a group that is matched elsewhere, and ``ending`` what at its end (both of a source).
    """

    query: Query
    dialect: str
    default: Source
    opened: Callable[[Writing, Source], str]
    ending: Callable[[Writing, Source], str] | None
    pattern: Callable[[Writing, Algebra], str]
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    windows: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.names:
            return
        taken = {name for name in _variables((self.query.body, self.query.form)) if not _made(name)}
        shared = _shared(self.query.body)
        for name in sorted(name for name in _variables((self.query.body, self.query.form)) if _made(name) or name in shared):
            blank = name.startswith("_:") and name not in shared
            stem = re.sub(r"\W", "", name.removeprefix("_:")) or "b"
            stem = f"b{stem}" if stem[0].isdigit() else stem
            free = next(
                f"{stem}{tail}" for tail in ("", *(f"_{n}" for n in range(len(taken) + 2))) if _free(stem + tail, blank, taken)
            )
            taken.add(f"_:{free}" if blank else free)
            self.names[name] = f"_:{free}" if blank else f"?{free}"

    def fail(self, message: str) -> NoReturn:
        """QueryError: the dialect cannot say this."""
        raise QueryError(f"{self.dialect} cannot say this query: {message}", self.query.text, 1, 1, self.query.file)

    @property
    def graph(self) -> Variable | None:
        """The variable of the GRAPH that the group in hand stands in."""
        found = graph_in(self.default)
        return found if isinstance(found, Variable) else None

    def node(self, node: Node) -> str:
        """A variable, a blank node or a term."""
        if isinstance(node, TripleTerm):
            return f"<<( {self.node(node.s)} {predicate(self, node.p)} {self.node(node.o)} )>>"
        if not isinstance(node, Variable):
            return term(node)
        return self.names.get(node.name) or (node.name if node.name.startswith("_:") else f"?{node.name}")


def term(text: str) -> str:
    """A term, in short where SPARQL has a short form that is the same term."""
    short = _NUMBER.fullmatch(text) or _TRUTH.fullmatch(text)
    return short[1] if short else text


def predicate(writing: Writing, node: Node) -> str:
    """What stands in a predicate's place."""
    return "a" if node == RDF_TYPE else writing.node(node)


def _shared(body: Any) -> set[str]:
    """Blank nodes that paths leave where no label can stand: in several basic graph patterns, as predicates, in expressions."""
    places: list[set[str]] = [_variables(bgp.patterns) for bgp in found_in(body, Bgp)]
    places += [_variables((closure.start, closure.end)) for closure in found_in(body, Closure)]
    alone = [_variables(call.arguments) for call in found_in(body, Call)]
    alone += [_variables(triple.p) for triple in found_in(body, TriplePattern)]
    counts = Counter(name for names in places for name in names)
    found = {name for name, count in counts.items() if count > 1}.union(*alone)
    return {name for name in found if name.startswith("_:")}


def _made(name: str) -> bool:
    """Whether the parser has made a name that no query can write."""
    return name.startswith((".", "_:."))


def only_source(node: Any) -> Source | None:
    """Where a part of the algebra is matched, if that is one source for all of it."""
    bgps = {bgp.source for bgp in found_in(node, Bgp) if bgp.patterns or bgp.source != DefaultGraph()}
    found = bgps | {closure.source for closure in found_in(node, Closure)}
    return found.pop() if len(found) == 1 else None


def _free(name: str, blank: bool, taken: set[str]) -> bool:
    return (f"_:{name}" if blank else name) not in taken


def _variables(node: Any) -> set[str]:
    return {found.name for found in found_in(node, Variable)}


def found_in(node: Any, kind: type[T]) -> list[T]:
    """All parts of a kind in a part of the algebra; without recursion, for chains of operators may be long."""
    waiting, found = [node], list[T]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, kind):
            found.append(part)
        elif isinstance(part, tuple):
            waiting += part
        elif is_dataclass(part) and not isinstance(part, type):
            waiting += [getattr(part, f.name) for f in fields(part)]
    return found
