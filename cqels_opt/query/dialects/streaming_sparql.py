"""Streaming SPARQL: ``FROM STREAM <stream> WINDOW RANGE 30 MINUTE SLIDE``, and a WINDOW at the end of a group.

The streams of FROM STREAM and the static default graph are matched as one graph; a FROM NAMED STREAM by ``GRAPH <stream>``. A
group's own WINDOW replaces that of the streams its patterns are matched in.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from cqels_opt.query.algebra import InWindow, Merged, Source, Window
from cqels_opt.query.dialects.clauses import DURATIONS, declare_stream, merge, read_count, read_length
from cqels_opt.query.printing.style import Style, cannot, distinct_streams, from_graphs, graph_by_stream
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.reading import Branch, Dialect, Profile, Reading, branches, span

_GRAMMAR: Final = r"""
%extend dataset_clause: "FROM"i "STREAM"i iri window                                            -> from_stream
    | "FROM"i "NAMED"i "STREAM"i iri window                                                     -> from_named_stream
%extend group: "{" triples_block? (_pattern "."? triples_block?)* group_window "}"
group_window: window "."?

window: "WINDOW"i "RANGE"i duration "SLIDE"i duration?                                          -> sliding
    | "WINDOW"i "RANGE"i duration "FIXED"i                                                      -> fixed
    | "WINDOW"i "ELEMS"i INTEGER                                                                -> elements
"""


def _window(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    if tree.data == "elements":
        return Window(name, stream, "last", count=read_count(reading, tree)[0])
    width, *slide = (read_length(reading, part) for part in branches(tree))
    delta = slide[0][0] if slide else width[0] if tree.data == "fixed" else width[1]
    return Window(name, stream, "delta", width[0], delta)


def _from_stream(reading: Reading, tree: Branch) -> None:
    window = declare_stream(reading, tree, _window)
    if tree.data == "from_stream":
        merge(reading, window)


def _group_window(reading: Reading, tree: Branch, source: Source) -> Source:
    match source:
        case Merged(windows):
            replaced = windows
        case InWindow(window):
            replaced = (window,)
        case _:
            reading.fail(tree, "this group is matched in no stream: a WINDOW here needs a FROM STREAM")
    names: list[str] = []
    for stream in dict.fromkeys(reading.windows[name].stream for name in replaced):
        own = _window(reading, branches(tree)[0], reading.free_window_name(stream), stream)
        reading.declare(own, None, tree, *span(tree))
        names.append(own.name)
    return replace(source, windows=tuple(names)) if isinstance(source, Merged) else InWindow(names[0])


def _default(writing: Writing) -> Source:
    query, elsewhere = writing.query, writing.whole.of_streams | writing.whole.of_groups
    merged = tuple(window.name for window in query.windows if window.name not in elsewhere)
    return Merged(merged, from_graphs(query)) if merged else from_graphs(query)


def _clause(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "delta", width, slide):
            text = f"RANGE {width} " + ("FIXED" if width == slide else f"SLIDE {slide}")
        case Window(_, _, "last", count=count, every=0):
            text = f"ELEMS {count}"
        case _:
            return cannot(writing, window)
    return f"WINDOW {text}"


def _written(writing: Writing, window: Window) -> str:
    if window.name in writing.whole.of_groups:
        return ""
    named = "NAMED " * (window.name in writing.whole.of_streams)
    return f"FROM {named}STREAM {window.stream} {_clause(writing, window)}"


def _opened(writing: Writing, source: Source) -> str:
    return "" if isinstance(source, Merged) and _ending(writing, source) else graph_by_stream(writing, source)


def _ending(writing: Writing, source: Source) -> str:
    """The WINDOW of a group that declares its own windows."""
    names = source.windows if isinstance(source, Merged) else (source.window,) if isinstance(source, InWindow) else ()
    own = writing.whole.of_groups.intersection(names)
    return _clause(writing, writing.whole.windows[min(own)]) if own else ""


DIALECT = Dialect(
    name="streaming-sparql",
    grammar=DURATIONS + _GRAMMAR,
    recognise=re.compile(r"\bWINDOW (RANGE|ELEMS)\b", re.IGNORECASE),
    clauses={"from_stream": _from_stream, "from_named_stream": _from_stream},
    window="FROM STREAM <stream> WINDOW RANGE 10s SLIDE 5s",
    profile=Profile("cc", "istream", "bag"),
    style=Style(
        _written, _opened, _default, check=lambda writing: distinct_streams(writing, writing.whole.of_streams), ending=_ending
    ),
    group_window=_group_window,
)
