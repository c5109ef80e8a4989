"""The state of printing one query: its dialect, the names that it may use, and how a group names the source of its patterns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from itertools import chain, count
from typing import Any, NoReturn, TypeVar

from cqels_opt.errors import QueryError
from cqels_opt.query import algebra as a
from cqels_opt.query.names import RDF_TYPE
from cqels_opt.rdf.terms import XSD

T = TypeVar("T")
_NUMBER = re.compile(rf'"([0-9]+)"\^\^<{re.escape(XSD)}integer>')
_TRUTH = re.compile(rf'"(true|false)"\^\^<{re.escape(XSD)}boolean>')


class Whole:
    """Properties of the whole query that printing its parts needs repeatedly. Each is computed once."""

    def __init__(self, query: a.Query) -> None:
        self.query = query
        self._sources: dict[int, tuple[object, tuple[a.Source, ...]]] = {}

    @cached_property
    def names(self) -> dict[str, str]:
        """New names for those that the parser made, and for blank nodes that no label can name."""
        here = _variables((self.query.body, self.query.form))
        taken = {name for name in here if not _made(name)}
        shared, found = _shared(self.query.body), dict[str, str]()
        for name in sorted(name for name in here if _made(name) or name in shared):
            blank = name.startswith("_:") and name not in shared
            stem = re.sub(r"\W", "", name.removeprefix("_:")) or "b"
            stem = f"b{stem}" if stem[0].isdigit() else stem
            free = next(stem + tail for tail in chain([""], (f"_{n}" for n in count())) if _free(stem + tail, blank, taken))
            taken.add(f"_:{free}" if blank else free)
            found[name] = f"_:{free}" if blank else f"?{free}"
        return found

    @cached_property
    def windows(self) -> dict[str, a.Window]:
        """The windows by name."""
        return {window.name: window for window in self.query.windows}

    @cached_property
    def clauses(self) -> dict[str, str]:
        """The clauses that declare windows in the query's own text, by window."""
        return {clause.window: self.query.text[clause.start : clause.end] for clause in self.query.clauses}

    @cached_property
    def alone(self) -> frozenset[str]:
        """The windows in which some pattern is matched alone."""
        return frozenset(source.window for source in found_in(self.query.body, a.InWindow))

    @cached_property
    def in_graphs(self) -> dict[a.Variable, tuple[a.Source, ...]]:
        """The sources that range over graphs, by the variable of the graph."""
        found: dict[a.Variable, dict[a.Source, None]] = {}
        over_graphs: list[a.Source] = [*found_in(self.query.body, a.NamedGraph), *found_in(self.query.body, a.InWindow)]
        for source in over_graphs:
            if isinstance(graph := a.graph_in(source), a.Variable):
                found.setdefault(graph, {})[source] = None
        return {graph: tuple(sources) for graph, sources in found.items()}

    @cached_property
    def of_groups(self) -> frozenset[str]:
        """The windows that a group declares for itself (Streaming SPARQL)."""
        return frozenset(name for name, clause in self.clauses.items() if re.match("WINDOW", clause, re.IGNORECASE))

    @cached_property
    def of_streams(self) -> frozenset[str]:
        """The windows of streams that a GRAPH names, even if each such group declares its own window (Streaming SPARQL)."""
        named = {name for name, clause in self.clauses.items() if re.match(r"FROM\s+NAMED", clause, re.IGNORECASE)}
        return (self.alone | named) - self.of_groups

    def only_source(self, node: a.Algebra) -> a.Source | None:
        """The source in which all patterns of a part are matched; None if there are several. Not recursive, because chains may be long."""
        waiting: list[Any] = [node]
        while waiting:
            part = waiting[-1]
            if id(part) in self._sources:
                waiting.pop()
                continue
            inner = [] if isinstance(part, a.Bgp) else _parts(part)
            if ahead := [below for below in inner if id(below) not in self._sources]:
                waiting += ahead
                continue
            own = (part.source,) if isinstance(part, a.Closure) or (isinstance(part, a.Bgp) and part != a.Bgp(())) else ()
            found = dict.fromkeys(chain(own, *(self._sources[id(below)][1] for below in inner)))
            self._sources[id(part)] = part, tuple(found)[:2]  # holding the part keeps its id from being reused
            waiting.pop()
        found_here = self._sources[id(node)][1]
        return found_here[0] if len(found_here) == 1 else None


@dataclass
class Writing:
    """The state of one printing. ``default`` is the source of the patterns of the current group. ``opened`` writes the words before
    a group with another source, and ``ending`` those at its end. ``names`` are as in :class:`Whole`.
    """

    whole: Whole
    dialect: str
    default: a.Source
    opened: Callable[[Writing, a.Source], str]
    ending: Callable[[Writing, a.Source], str] | None
    pattern: Callable[[Writing, a.Algebra], str]
    names: dict[str, str]
    aggregates: Mapping[str, a.Aggregate] = field(default_factory=dict)
    windows: dict[str, str] = field(default_factory=dict)

    @property
    def query(self) -> a.Query:
        """The query that is printed."""
        return self.whole.query

    def fail(self, message: str, window: str | None = None, word: str | None = None) -> NoReturn:
        """QueryError: the dialect cannot express this. The position is the declaration of a window, or a word of the text."""
        text = self.query.text
        starts = [clause.start for clause in self.query.clauses if clause.window == window]
        if word is not None and (found := re.search(re.escape(word), text, re.IGNORECASE)):
            starts.append(found.start())
        before = text[: starts[0] if starts else 0]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise QueryError(f"{self.dialect} cannot express this query: {message}", text, line, column, self.query.file)

    @property
    def graph(self) -> a.Variable | None:
        """The variable of the GRAPH around the current group."""
        found = a.graph_in(self.default)
        return found if isinstance(found, a.Variable) else None

    def node(self, node: a.Node) -> str:
        """A variable, a blank node or a term."""
        if isinstance(node, a.TripleTerm):
            return f"<<( {self.node(node.s)} {predicate(self, node.p)} {self.node(node.o)} )>>"
        if not isinstance(node, a.Variable):
            return term(node)
        return self.names.get(node.name) or (node.name if node.name.startswith("_:") else f"?{node.name}")


def term(text: str) -> str:
    """A term, in SPARQL's short form if there is one for this very term."""
    short = _NUMBER.fullmatch(text) or _TRUTH.fullmatch(text)
    return short[1] if short else text


def predicate(writing: Writing, node: a.Node) -> str:
    """The text of a predicate."""
    return "a" if node == RDF_TYPE else writing.node(node)


def _shared(body: Any) -> set[str]:
    """Blank nodes that paths leave in places where SPARQL allows no label: several basic graph patterns, predicates, expressions."""
    places: list[set[str]] = [_variables(bgp.patterns) for bgp in found_in(body, a.Bgp)]
    places += [_variables((closure.start, closure.end)) for closure in found_in(body, a.Closure)]
    alone = [_variables(call.arguments) for call in found_in(body, a.Call)]
    alone += [_variables(triple.p) for triple in found_in(body, a.TriplePattern)]
    counts = Counter(name for names in places for name in names)
    found = {name for name, count in counts.items() if count > 1}.union(*alone)
    return {name for name in found if name.startswith("_:")}


def _made(name: str) -> bool:
    """Whether the parser made this name; no query can write it."""
    return name.startswith((".", "_:."))


def _free(name: str, blank: bool, taken: set[str]) -> bool:
    return (f"_:{name}" if blank else name) not in taken


def _variables(node: Any) -> set[str]:
    return {found.name for found in found_in(node, a.Variable)}


def found_in(node: Any, kind: type[T]) -> list[T]:
    """All parts of a type in a part of the algebra. Not recursive, because chains of operators may be long."""
    waiting, found = [node], list[T]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, kind):
            found.append(part)
        else:
            waiting += _parts(part)
    return found


def _parts(part: Any) -> Sequence[Any]:
    """The direct parts of a part of the algebra."""
    if isinstance(part, tuple):
        return part
    return [getattr(part, f.name) for f in fields(part)] if is_dataclass(part) else ()
