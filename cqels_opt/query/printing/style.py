"""How a dialect writes windows, the place where a pattern is matched, and the header.

What a dialect cannot write is a QueryError that names the reason. The functions are those that several dialects share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from cqels_opt import plugins
from cqels_opt.errors import option
from cqels_opt.query import algebra as a
from cqels_opt.query.printing.writing import Writing, found_in

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))
_KINDS: Final = {
    "now": "[NOW]",
    "range": "a range without a step",
    "grid": "a range that slides on a grid",
    "delta": "a sliding δ-window",
    "purged": "a range as CQELS 1.x purges it",
    "open-closed": "a range with a step",
    "closed-open": "a range with a step that holds its opening and not its closing (bounds closed-open, or C-SPARQL)",
    "star": "a window of RSP-QL* (COMPUTED EVERY)",
    "past": "a range that ends before now",
    "last": "the last n elements",
    "all": "[ALL]",
}
LENGTHS: Final = frozenset({"width", "slide", "step"})
"""The fields of a window that are durations; the others are numbers of elements."""


def duration(milliseconds: int) -> str:
    """A duration in its largest unit that needs no fraction."""
    size, unit = next(found for found in _UNITS if milliseconds % found[0] == 0)
    return f"{milliseconds // size}{unit}"


def cannot(writing: Writing, window: a.Window) -> NoReturn:
    """Raise: the dialect has no clause for this kind of window."""
    more = f" by {window.every}" if window.every else ""
    kind = _KINDS[window.kind] if window.kind in _KINDS else call_of(window)
    writing.fail(f"it has no clause for the window {window.name}, {kind}{more}", window.name)


def call_of(window: a.Window) -> str:
    """``kind(arguments)`` of a window whose kind another package adds."""
    values = [(field, getattr(window, field)) for field in plugins.load("windows", window.kind).parameters]
    return f"{window.kind}({', '.join(duration(value) if field in LENGTHS else str(value) for field, value in values)})"


# ------------------------------------------------------------------ where a pattern is matched
def static_graph(writing: Writing, source: a.Source) -> str:
    """GRAPH with the name of a static graph. A dialect that can name other sources handles them first."""
    no_element_graphs(writing, source)
    match source:
        case a.NamedGraph(name) | a.GraphsMerged((name,)):
            return f"GRAPH {writing.node(name)}"
        case a.Merged(windows):
            writing.fail("it does not match patterns in windows and static data merged", next(iter(windows), None))
        case a.InWindow(window):
            writing.fail(f"it has no name for the window {window}, in which a pattern is matched alone", window)
        case _:
            writing.fail("it matches no pattern in the static default graph alone", word="WHERE")


def no_element_graphs(writing: Writing, source: a.Source) -> None:
    """Raise where GRAPH names the graphs of a window's elements, which only some dialects can."""
    if isinstance(source, a.InWindow) and source.graph is not None:
        writing.fail("it does not name the graphs of a window's elements", word="GRAPH")


def apart(writing: Writing) -> a.Source:
    """Patterns outside GRAPH are matched in the static default graph; each window is matched by its name."""
    return a.DefaultGraph()


def all_merged(writing: Writing) -> a.Source:
    """Patterns outside GRAPH are matched in all windows and the static default graph as one graph."""
    query = writing.query
    return a.Merged(tuple(window.name for window in query.windows), from_graphs(query))


def from_graphs(query: a.Query) -> a.DefaultGraph | a.GraphsMerged:
    """The static default graph that windows are merged with: the graphs that FROM names, if it names some."""
    return next((source.default for source in found_in(query.body, a.Merged)), a.DefaultGraph())


# ------------------------------------------------------------------ headers
def no_operator(writing: Writing) -> str:
    """No word after SELECT; raise where the query names its output operator."""
    if writing.query.operator is not None:
        decisive = option("output_operator=", "--output-operator")
        writing.fail(
            f"it has no keyword for {writing.query.operator.upper()}: its profile or {decisive} decides",
            word=writing.query.operator,
        )
    return ""


def no_header(writing: Writing) -> str:
    """No header; raise where the query names the stream of its answers."""
    if writing.query.output is not None and isinstance(writing.query.form, a.Construct | a.Describe):
        writing.fail(f"it has no name for a stream of answers, {writing.query.output}", word=writing.query.output)
    return ""


def registered(kind: str) -> Callable[[Writing], str]:
    """REGISTER QUERY name AS; with ``kind`` STREAM, REGISTER STREAM for queries that construct graphs."""

    def header(writing: Writing) -> str:
        name = writing.query.output
        stream = kind == "STREAM" and isinstance(writing.query.form, a.Construct | a.Describe)
        return "" if name is None else f"REGISTER {'STREAM' if stream else 'QUERY'} {name} AS"

    return header


# ------------------------------------------------------------------ windows named by their streams
def distinct_streams(writing: Writing, named: frozenset[str]) -> None:
    """Raise where two of the named windows are over one stream, whose name would mean both."""
    found: dict[str, str] = {}
    for name in sorted(named):
        stream = writing.whole.windows[name].stream
        if found.setdefault(stream, name) != name:
            writing.fail(f"it names windows by their streams, and two of the windows over {stream} are named", name)


def graph_by_stream(writing: Writing, source: a.Source) -> str:
    """GRAPH with the name of a window's stream, or of a static graph."""
    no_element_graphs(writing, source)
    if isinstance(source, a.InWindow):
        return f"GRAPH {writing.whole.windows[source.window].stream}"
    return static_graph(writing, source)


@dataclass(frozen=True)
class Style:
    """How a dialect writes a query; the defaults are plain SPARQL 1.1.

    ``window`` writes the clause that declares a window, ``opened`` the words before a group that is matched in a source, and ``ending``
    the WINDOW at its end. ``default`` is the source of patterns outside GRAPH and WINDOW. ``header`` stands before the query,
    ``operator`` behind SELECT, CONSTRUCT, ASK or DESCRIBE. ``check`` runs first: it raises, or names the windows.
    """

    window: Callable[[Writing, a.Window], str]
    opened: Callable[[Writing, a.Source], str] = static_graph
    default: Callable[[Writing], a.Source] = apart
    header: Callable[[Writing], str] = no_header
    operator: Callable[[Writing], str] = no_operator
    check: Callable[[Writing], None] = lambda writing: None
    ending: Callable[[Writing, a.Source], str] | None = None
