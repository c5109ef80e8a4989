"""A query split into a dynamic part for the stream engine and static parts for the store (CQELS report §6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from cqels_opt.bench.contenders import UnsupportedError
from cqels_opt.query.algebra import (
    Aggregate,
    Algebra,
    Bgp,
    Extend,
    Group,
    InWindow,
    Join,
    Merged,
    Project,
    Query,
    Source,
    TriplePattern,
    Values,
    Variable,
    Window,
)
from cqels_opt.query.printing import to_text
from cqels_opt.query.visible import visible


@dataclass(frozen=True, slots=True)
class StreamPattern:
    """A triple pattern over a window."""

    window: Window
    pattern: TriplePattern

    @property
    def variables(self) -> list[str]:
        """Its distinct variables, in order."""
        nodes = (self.pattern.s, self.pattern.p, self.pattern.o)
        return list(dict.fromkeys(node.name for node in nodes if isinstance(node, Variable)))


@dataclass(frozen=True, slots=True)
class StaticPart:
    """A connected static part as a separate SPARQL query, and the variables that are read outside of it."""

    text: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The aggregates above the joins: keys, and named aggregates."""

    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]


@dataclass(frozen=True, slots=True)
class Parts:
    """A decomposed query. ``output`` maps the answer's variables to their names below."""

    streams: tuple[StreamPattern, ...]
    statics: tuple[StaticPart, ...]
    grouped: Grouped | None
    output: Mapping[str, str]


def split(query: Query) -> Parts:
    """The parts of a query; :class:`UnsupportedError` unless it is a join of windows and static patterns, optionally grouped."""
    if query.form is not None or not isinstance(query.body, Project):
        raise UnsupportedError("System X answers SELECT queries without DISTINCT, ORDER BY and LIMIT")
    output = {v.name: v.name for v in query.body.variables}
    node, grouped = query.body.input, None
    while isinstance(node, Extend) and isinstance(node.expression, Variable):
        output = {name: node.expression.name if of == node.variable.name else of for name, of in output.items()}
        node = node.input
    if isinstance(node, Group):
        grouped = Grouped(tuple(v.name for v in node.keys), {v.name: aggregate for v, aggregate in node.aggregates})
        node = node.input
    windows = {window.name: window for window in query.windows}
    streams: list[StreamPattern] = []
    statics: list[Algebra] = []
    for part in _joined(node):
        if isinstance(part, Bgp) and isinstance(part.source, InWindow):
            if part.source.graph is not None or part.source.time is not None:
                raise UnsupportedError("System X does not know the graphs and times of elements")
            streams += [StreamPattern(windows[part.source.window], pattern) for pattern in part.patterns]
        elif _reads_streams(part):
            raise UnsupportedError(
                "System X joins windows with static data: it has no OPTIONAL, MINUS, UNION or FILTER over windows"
            )
        elif isinstance(part, Bgp):
            statics += [Bgp((pattern,), part.source) for pattern in part.patterns]
        else:
            statics.append(part)
    if not streams:
        raise UnsupportedError("System X is for queries that read streams")
    read = {name for s in streams for name in s.variables} | _above(output, grouped)
    return Parts(tuple(streams), tuple(_static(query, group, read) for group in _connected(statics)), grouped, output)


def _joined(node: Algebra) -> Iterator[Algebra]:
    """The operands of a join, from left to right."""
    if isinstance(node, Join):
        yield from _joined(node.left)
        yield from _joined(node.right)
    elif not (isinstance(node, Bgp) and not node.patterns):
        yield node


def _reads_streams(node: Algebra) -> bool:
    if isinstance(node, Bgp):
        return isinstance(node.source, InWindow | Merged)
    if isinstance(node, Values):
        return False
    below = [getattr(node, name) for name in ("left", "right", "input") if hasattr(node, name)]
    return not below or any(map(_reads_streams, below))


def _above(output: Mapping[str, str], grouped: Grouped | None) -> set[str]:
    """The variables that are read above the joins."""
    if grouped is None:
        return set(output.values())
    arguments = [aggregate.argument for aggregate in grouped.aggregates.values()]
    if any(argument is not None and not isinstance(argument, Variable) for argument in arguments):
        raise UnsupportedError("System X aggregates variables, not expressions")
    return {*grouped.keys, *(argument.name for argument in arguments if isinstance(argument, Variable))}


def _connected(parts: list[Algebra]) -> list[list[Algebra]]:
    """The connected components of the parts by shared variables."""
    groups: list[tuple[set[str], list[Algebra]]] = []
    for part in parts:
        names, members = {v.name for v in visible(part)}, [part]
        apart = []
        for group in groups:
            if group[0] & names:
                names, members = names | group[0], [*group[1], *members]
            else:
                apart.append(group)
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _static(query: Query, parts: list[Algebra], read: set[str]) -> StaticPart:
    """The parts as one query. VALUES and the like precede triple patterns, for stores that join in the written order."""
    triples: dict[Source, tuple[TriplePattern, ...]] = {}
    for part in parts:
        if isinstance(part, Bgp):
            triples[part.source] = (*triples.get(part.source, ()), *part.patterns)
    others = [part for part in parts if not isinstance(part, Bgp)]
    body: Algebra = reduce(Join, [*others, *(Bgp(patterns, source) for source, patterns in triples.items())])
    kept = tuple(v for v in visible(body) if v.name in read)
    if not kept:
        raise UnsupportedError("a static part that shares no variable with the rest is not joined by System X")
    return StaticPart(
        to_text(Query("", "cqels", kept, Project(body, kept), (), (), file=query.file), "cqels"), tuple(v.name for v in kept)
    )
