"""The report's language and CQELS-QL.

A window follows ``FROM NAMED <stream>`` and is named by a variable, or follows ``STREAM <stream>`` in the body.
"""

from __future__ import annotations

import re
from itertools import chain, count
from typing import Final

from cqels_opt.query.algebra import Algebra, InWindow, Source, Variable, Window
from cqels_opt.query.dialects.called_windows import CALLED, read_called, written_call
from cqels_opt.query.dialects.clauses import DURATIONS, HEADER, read_count, read_duration, register, stream_of
from cqels_opt.query.printing.style import Style, duration, no_element_graphs, registered, static_graph
from cqels_opt.query.printing.writing import Writing, found_in
from cqels_opt.query.reading import Branch, Dialect, Profile, Reading, branches, span, tokens

_GRAMMAR: Final = r"""
registration: "REGISTER"i "QUERY"i registered_name "AS"i

%extend dataset_clause: "FROM"i "NAMED"i iri "[" window "]" "AS"i variable                      -> named_window
%extend _pattern: stream_block
stream_block: stream_head group
stream_head: "STREAM"i iri "[" window "]"

window: "NOW"i                                                                                  -> now
    | "ALL"i                                                                                    -> all
    | "TRIPLES"i INTEGER                                                                        -> triples
    | "RANGE"i duration                                                                         -> range
    | "RANGE"i duration "SLIDE"i duration                                                       -> sliding
    | "RANGE"i duration "TUMBLING"i                                                             -> tumbling
    | called_window                                                                             -> called
"""


def _window(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    if tree.data == "called":
        return read_called(reading, branches(tree)[0], name, stream)
    lengths = [read_duration(reading, part) for part in branches(tree)]
    match tree.data:
        case "now":
            return Window(name, stream, "now")
        case "all":
            return Window(name, stream, "all")
        case "triples":
            return Window(name, stream, "last", count=read_count(reading, tree)[0])
        case "range":
            return Window(name, stream, "range", lengths[0])
        case _:
            return Window(name, stream, "grid", lengths[0], lengths[-1])


def _named_window(reading: Reading, tree: Branch) -> None:
    _, window, variable = branches(tree)
    name = str(tokens(variable)[0][1:])
    reading.declare(_window(reading, window, name, stream_of(reading, tree)), Variable(name), variable, *span(tree))


def _stream_block(reading: Reading, tree: Branch, source: Source) -> Algebra:
    head, group = branches(tree)
    stream = stream_of(reading, head)
    name = reading.free_window_name(stream)
    reading.declare(_window(reading, branches(head)[1], name, stream), None, head, *span(head))
    return reading.read_group(reading, group, InWindow(name))


def _named_apart(writing: Writing) -> None:
    """Give each window a name that no variable has: other dialects name windows by IRIs."""
    taken = {v.name for v in found_in((writing.query.body, writing.query.form), Variable)}
    for window in writing.query.windows:
        tries = chain([window.name, f"w_{window.name}"], (f"w{n}_{window.name}" for n in count()))
        writing.windows[window.name] = next(name for name in tries if name not in taken)
        taken.add(writing.windows[window.name])


def _written(writing: Writing, window: Window) -> str:
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
        case _:
            text = written_call(writing, window)
    return f"FROM NAMED {window.stream} [{text}] AS ?{writing.windows[window.name]}"


def _opened(writing: Writing, source: Source) -> str:
    no_element_graphs(writing, source)
    return f"GRAPH ?{writing.windows[source.window]}" if isinstance(source, InWindow) else static_graph(writing, source)


DIALECT = Dialect(
    name="cqels",
    grammar=DURATIONS + HEADER + CALLED + _GRAMMAR,
    recognise=re.compile(r"\] ?AS [?$]|(?<!FROM )(?<!NAMED )\bSTREAM (<>|[\w.-]*:[\w.-]*) ?\[[^]]*\] ?\{", re.IGNORECASE),
    clauses={"named_window": _named_window, "registration": register},
    patterns={"stream_block": _stream_block},
    window="FROM NAMED <stream> [RANGE 10s SLIDE 5s] AS ?w",
    profile=Profile("cc", "istream", "bag"),
    style=Style(_written, _opened, header=registered("QUERY"), check=_named_apart),
)
