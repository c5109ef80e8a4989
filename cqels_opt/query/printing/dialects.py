"""How each dialect says windows, where a pattern is matched, and the header. What it cannot say is a QueryError that says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

from cqels_opt import plugins
from cqels_opt.query.algebra import (
    Construct,
    DefaultGraph,
    Describe,
    GraphsMerged,
    InWindow,
    Merged,
    NamedGraph,
    Query,
    Source,
    Variable,
    Window,
)
from cqels_opt.query.dialects.called_windows import LENGTHS
from cqels_opt.query.printing.writing import Writing, found_in

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
_KINDS: Final = {
    "now": "[NOW]",
    "range": "a range without a step",
    "grid": "a range that slides on a grid",
    "delta": "a sliding δ-window",
    "open-closed": "a range with a step",
    "closed-open": "a range with a step that holds its opening and not its closing (--bounds closed-open, or C-SPARQL)",
    "star": "a window of RSP-QL* (COMPUTED EVERY)",
    "past": "a range that ends before now",
    "last": "the last n elements",
    "all": "[ALL]",
}


@dataclass(frozen=True)
class Style:
    """A dialect's words. ``operator`` is what follows SELECT, ``default`` where patterns outside GRAPH are matched.

    ``ending`` is the WINDOW of a group that has one of its own.
    """

    window: Callable[[Writing, Window], str]
    opened: Callable[[Writing, Source], str]
    default: Callable[[Writing], Source]
    header: Callable[[Writing], str]
    operator: Callable[[Writing], str]
    check: Callable[[Writing], None] = lambda writing: None
    ending: Callable[[Writing, Source], str] | None = None


def duration(milliseconds: int) -> str:
    """A duration in its largest unit that needs no fraction."""
    size, unit = next(found for found in _UNITS if milliseconds % found[0] == 0)
    return f"{milliseconds // size}{unit}"


def _cannot(writing: Writing, window: Window) -> str:
    more = f" by {window.every}" if window.every else ""
    kind = _KINDS[window.kind] if window.kind in _KINDS else _called(window)
    writing.fail(f"it has no words for the window {window.name}, {kind}{more}")


def _called(window: Window) -> str:
    """A window of a kind that another package adds."""
    values = [(field, getattr(window, field)) for field in plugins.load("windows", window.kind).parameters]
    return f"{window.kind}({', '.join(duration(value) if field in LENGTHS else str(value) for field, value in values)})"


# ------------------------------------------------------------------ where a pattern is matched
def _graph(writing: Writing, source: Source) -> str:
    """GRAPH of static data; what other sources a dialect has comes before this."""
    _no_elements(writing, source)
    match source:
        case NamedGraph(name) | GraphsMerged((name,)):
            return f"GRAPH {writing.node(name)}"
        case Merged():
            writing.fail("it does not match patterns in windows and static data merged")
        case InWindow(window):
            writing.fail(f"it has no name for the window {window}, in which a pattern is matched alone")
        case _:
            writing.fail("it matches no pattern in the static default graph alone")


def _no_elements(writing: Writing, source: Source) -> None:
    if isinstance(source, InWindow) and source.graph is not None:
        writing.fail("it does not name the graphs of a window's elements")


def _none(writing: Writing) -> Source:
    return DefaultGraph()


def _all_merged(writing: Writing) -> Source:
    query = writing.query
    return Merged(tuple(window.name for window in query.windows), _from(query))


def _from(query: Query) -> DefaultGraph | GraphsMerged:
    """The default graph that FROM clauses name, where windows are merged with it."""
    return next((source.default for source in found_in(query.body, Merged)), DefaultGraph())


# ------------------------------------------------------------------ headers
def _nothing(writing: Writing) -> str:
    if writing.query.operator is not None:
        writing.fail(f"it has no word for {writing.query.operator.upper()}: its profile or --output-operator decides")
    return ""


def _no_header(writing: Writing) -> str:
    if writing.query.output is not None and isinstance(writing.query.form, Construct | Describe):
        writing.fail(f"it has no name for a stream of answers, {writing.query.output}")
    return ""


def _registered(kind: str) -> Callable[[Writing], str]:
    def header(writing: Writing) -> str:
        name = writing.query.output
        stream = kind == "STREAM" and isinstance(writing.query.form, Construct | Describe)
        return "" if name is None else f"REGISTER {'STREAM' if stream else 'QUERY'} {name} AS"

    return header


# ------------------------------------------------------------------ CQELS
def _named_apart(writing: Writing) -> None:
    """Windows get names that no variable of the query has: elsewhere they are named by IRIs."""
    taken = {v.name for v in found_in((writing.query.body, writing.query.form), Variable)}
    for window in writing.query.windows:
        tries = chain([window.name, f"w_{window.name}"], (f"w{n}_{window.name}" for n in count()))
        writing.windows[window.name] = next(name for name in tries if name not in taken)
        taken.add(writing.windows[window.name])


def _cqels_window(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "now"):
            text = "NOW"
        case Window(_, _, "all"):
            text = "ALL"
        case Window(_, _, "range", width):
            text = f"RANGE {duration(width)}"
        case Window(_, _, "grid", width, slide):
            text = f"RANGE {duration(width)} " + ("TUMBLING" if width == slide else f"SLIDE {duration(slide)}")
        case Window(_, _, "last", count=count, every=0):
            text = f"TRIPLES {count}"
        case Window(_, _, kind) if kind not in _KINDS:
            text = _called(window)
        case _:
            return _cannot(writing, window)
    return f"FROM NAMED {window.stream} [{text}] AS ?{writing.windows[window.name]}"


def _cqels_opened(writing: Writing, source: Source) -> str:
    _no_elements(writing, source)
    return f"GRAPH ?{writing.windows[source.window]}" if isinstance(source, InWindow) else _graph(writing, source)


# ------------------------------------------------------------------ RSP-QL
def _rspql_window(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "open-closed" | "star", width, slide):
            text = f"RANGE {duration(width)} STEP {duration(slide)}"
        case Window(_, _, "last", count=count, every=every):
            text = f"ELEMENTS {count}" + (f" STEP {every}" if every else "")
        case Window(_, _, kind) if kind not in _KINDS:
            text = _called(window)
        case _:
            return _cannot(writing, window)
    return f"FROM NAMED WINDOW <urn:window:{window.name}> ON {window.stream} [{text}]"


def _rspql_opened(writing: Writing, source: Source) -> str:
    return f"WINDOW <urn:window:{source.window}>" if isinstance(source, InWindow) else _graph(writing, source)


def _rspql_header(writing: Writing) -> str:
    query = writing.query
    every = max((w.step for w in query.windows if w.kind in ("star", "last")), default=0)
    if not (query.operator or query.output or every):
        return ""
    if every and any(w.step != every or w.kind == "open-closed" for w in query.windows):
        writing.fail("its COMPUTED EVERY holds for all windows of a query")
    name = query.output or "<urn:answers>"
    return f"REGISTER {(query.operator or 'stream').upper()} {name}{f' COMPUTED EVERY {duration(every)}' * bool(every)} AS"


def _by_header(writing: Writing) -> str:
    return ""


# ------------------------------------------------------------------ C-SPARQL
def _csparql_window(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "closed-open", width, slide):
            text = f"RANGE {duration(width)} " + ("TUMBLING" if width == slide else f"STEP {duration(slide)}")
        case Window(_, _, "last", count=count, every=0):
            text = f"RANGE TRIPLES {count}"
        case _:
            return _cannot(writing, window)
    return f"FROM STREAM {window.stream} [{text}]"


# ------------------------------------------------------------------ SPARQLstream
def _named_once(writing: Writing) -> None:
    """Streams are known by their own names: two windows over one of them cannot both be named."""
    _distinct_streams(writing, writing.whole.alone)


def _distinct_streams(writing: Writing, named: frozenset[str]) -> None:
    streams = Counter(writing.whole.windows[name].stream for name in sorted(named))
    for stream in streams:
        if streams[stream] > 1:
            writing.fail(f"it names windows by their streams, and two of the windows over {stream} are named")


def _from_stream(writing: Writing, window: Window, text: str) -> str:
    """``FROM STREAM``, or ``FROM NAMED STREAM`` where a GRAPH names the window by its stream."""
    return f"FROM {'NAMED ' * (window.name in writing.whole.alone)}STREAM {window.stream} {text}"


def _sparqlstream_window(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "open-closed", width, slide):
            text = f"NOW - {duration(width)} SLIDE {duration(slide)}"
        case Window(_, _, "range", width):
            text = f"NOW - {duration(width)}"
        case Window(_, _, "past", width, end, step=step):
            text = f"NOW - {duration(width)} TO NOW - {duration(end)}" + (f" SLIDE {duration(step)}" if step else "")
        case _:
            return _cannot(writing, window)
    return _from_stream(writing, window, f"[{text}]")


def _by_stream(writing: Writing, source: Source) -> str:
    _no_elements(writing, source)
    return f"GRAPH {writing.whole.windows[source.window].stream}" if isinstance(source, InWindow) else _graph(writing, source)


def _sparqlstream_operator(writing: Writing) -> str:
    return f" {writing.query.operator.upper()}" if writing.query.operator is not None else ""


# ------------------------------------------------------------------ Streaming SPARQL
def _one_window_a_stream(writing: Writing) -> None:
    _distinct_streams(writing, writing.whole.of_streams)


def _streaming_default(writing: Writing) -> Source:
    query, elsewhere = writing.query, writing.whole.of_streams | writing.whole.of_groups
    merged = tuple(window.name for window in query.windows if window.name not in elsewhere)
    return Merged(merged, _from(query)) if merged else _from(query)


def _length(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "delta", width, slide):
            text = f"RANGE {width} " + ("FIXED" if width == slide else f"SLIDE {slide}")
        case Window(_, _, "last", count=count, every=0):
            text = f"ELEMS {count}"
        case _:
            return _cannot(writing, window)
    return f"WINDOW {text}"


def _streaming_window(writing: Writing, window: Window) -> str:
    if window.name in writing.whole.of_groups:
        return ""
    named = "NAMED " * (window.name in writing.whole.of_streams)
    return f"FROM {named}STREAM {window.stream} {_length(writing, window)}"


def _streaming_opened(writing: Writing, source: Source) -> str:
    return "" if isinstance(source, Merged) and _group_window(writing, source) else _by_stream(writing, source)


def _group_window(writing: Writing, source: Source) -> str:
    """The WINDOW of a group that is matched in windows of its own."""
    names = source.windows if isinstance(source, Merged) else (source.window,) if isinstance(source, InWindow) else ()
    own = writing.whole.of_groups.intersection(names)
    return _length(writing, writing.whole.windows[min(own)]) if own else ""


STYLES: Final[Mapping[str, Style]] = {
    "cqels": Style(_cqels_window, _cqels_opened, _none, _registered("QUERY"), _nothing, _named_apart),
    "rspql": Style(_rspql_window, _rspql_opened, _none, _rspql_header, _by_header),
    "csparql": Style(_csparql_window, _graph, _all_merged, _registered("STREAM"), _nothing),
    "sparqlstream": Style(_sparqlstream_window, _by_stream, _all_merged, _no_header, _sparqlstream_operator, _named_once),
    "streaming-sparql": Style(
        _streaming_window,
        _streaming_opened,
        _streaming_default,
        _no_header,
        _nothing,
        _one_window_a_stream,
        _group_window,
    ),
}
