"""Clauses that several dialects share: durations, counts, headers, and windows that are merged with the static default graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from cqels_opt.query import durations
from cqels_opt.query.algebra import DefaultGraph, GraphsMerged, Merged, Window
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.reading import Branch, Reading, branches, only, span, tokens

_PART = r"[0-9]+(?:\.[0-9]+)?[ \t\r\n]*(?!(?:SLIDE|STEP|TUMBLING|FIXED|TO|AS|FROM|WHERE|ON)\b)[A-Za-z\u00B5\u03BC]+"
DURATIONS: Final = rf"""
duration: DURATION | INTEGER | DECIMAL
DURATION.4: /P[0-9T][0-9A-Z.]*|{_PART}(?:[ \t\r\n]*{_PART})*/i
"""
"""The grammar of a window's lengths, for every dialect that has windows."""
HEADER: Final = """
%extend unit: prologue registration prologue query
computed_every: "COMPUTED"i "EVERY"i duration
registered_name: iri | NAME
NAME: /[A-Za-z_][A-Za-z0-9_.-]*/
"""
"""The grammar of REGISTER; a dialect with this header defines the rule ``registration``."""
_ZERO: Final = "a duration of zero: a window needs a width and a slide of at least 1 ms"
_WORD_IN_BRACKETS: Final = re.compile(r"<[A-Za-z_][A-Za-z0-9_.-]*>")
OPERATORS: Final[dict[str, str]] = {"RSTREAM": "rstream", "ISTREAM": "istream", "DSTREAM": "dstream"}


def read_duration(reading: Reading, tree: Branch, least: int = 1) -> int:
    """The milliseconds of a ``duration`` rule."""
    token = tokens(tree)[0]
    try:
        found = durations.milliseconds(token)
    except ValueError as problem:
        reading.fail(token, str(problem))
    if found < least:
        reading.fail(token, _ZERO)
    return found


def read_length(reading: Reading, tree: Branch) -> tuple[int, int]:
    """A ``duration`` rule and its unit in milliseconds. A number without a unit is in milliseconds."""
    token = tokens(tree)[0]
    if token.type == "INTEGER":
        if not reading.whole(token):
            reading.fail(token, _ZERO)
        return reading.whole(token), 1
    return read_duration(reading, tree), max(1, durations.unit(token) or 1)


def read_count(reading: Reading, tree: Branch) -> list[int]:
    """The numbers of elements directly below."""
    found = []
    for token in tokens(tree):
        if not (count := reading.whole(token)):
            reading.fail(token, "an element window holds at least one element")
        found.append(count)
    return found


def stream_of(reading: Reading, tree: Branch) -> str:
    """The IRI of a clause's stream, the first ``iri`` below it."""
    return read_iri(reading, next(child for child in branches(tree) if child.data == "iri"))


def declare_stream(reading: Reading, tree: Branch, read: Callable[[Reading, Branch, str, str], Window]) -> Window:
    """Declare the window of ``FROM STREAM`` or ``FROM NAMED STREAM``, which ``read`` makes of its clause, name and stream."""
    stream, named = stream_of(reading, tree), tree.data == "from_named_stream"
    if named and stream in reading.window_of:
        reading.fail(tree, f"the stream {stream} is named twice: GRAPH could mean either of its windows")
    window = read(reading, branches(tree)[1], reading.free_window_name(stream), stream)
    reading.declare(window, stream if named else None, tree, *span(tree))
    return window


def merge(reading: Reading, window: Window) -> None:
    """Match patterns outside GRAPH in this window as well: one graph of all merged windows and the static default graph."""
    match reading.default:
        case Merged(windows, default):
            reading.default = Merged((*windows, window.name), default)
        case DefaultGraph() | GraphsMerged() as default:
            reading.default = Merged((window.name,), default)


def _registered_name(reading: Reading, tree: Branch) -> str:
    """An IRI, or a word. A relative IRI is a word where no BASE resolves it, as in the texts of RSP-JS."""
    iri = only(tree, "iri")
    (token,) = tokens(tree if iri is None else iri)
    if iri is None or (reading.names.base is None and _WORD_IN_BRACKETS.fullmatch(token)):
        return token.strip("<>")
    return read_iri(reading, iri)


def register(reading: Reading, tree: Branch) -> None:
    """The header: the name of the query and of its answers. C-SPARQL's COMPUTED EVERY has no effect: its windows report when they close."""
    for name in tree.find_data("registered_name"):
        reading.output = _registered_name(reading, name)
    for every in tree.find_data("duration"):
        read_duration(reading, every)
