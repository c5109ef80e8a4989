"""SPARQLstream: ``FROM NAMED STREAM <stream> [NOW - a TO NOW - b SLIDE c]`` and ``SELECT ISTREAM``, ``CONSTRUCT ISTREAM``.

All windows and the static default graph are matched as one graph; a named stream also by ``GRAPH <stream>``.
"""

from __future__ import annotations

import re
from typing import Final

from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects.forms import grammar, merge, read_duration, stream_of
from cqels_opt.query.reading import Branch, Dialect, Reading, branches, only, span, tokens

_OPERATORS: Final[dict[str, str]] = {"RSTREAM": "rstream", "ISTREAM": "istream", "DSTREAM": "dstream"}


def _window(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    lengths = [read_duration(reading, part, least=0) for part in branches(tree) if part.data == "duration"]
    begin, end = (*lengths, 0)[:2]
    slide = only(tree, "slide")
    step = 0 if slide is None else read_duration(reading, branches(slide)[0])
    if begin <= end:
        reading.fail(tree, f"the window is empty: it begins {begin} ms before now and ends {end} ms before now")
    if end:
        return Window(name, stream, "past", begin, end, step=step)
    return Window(name, stream, "open-closed", begin, step) if step else Window(name, stream, "range", begin)


def _from_stream(reading: Reading, tree: Branch) -> None:
    stream = stream_of(reading, tree)
    named = tree.data == "from_named_stream"
    if named and stream in reading.window_of:
        reading.fail(tree, f"the stream {stream} is named twice: GRAPH could mean either of its windows")
    window = _window(reading, branches(tree)[1], reading.free_window_name(stream), stream)
    reading.declare(window, stream if named else None, tree, *span(tree))
    merge(reading, window)


def _output(reading: Reading, tree: Branch) -> None:
    reading.operator = _OPERATORS[tokens(tree)[0].upper()]


DIALECT = Dialect(
    name="sparqlstream",
    grammar=grammar("sparqlstream", header=False),
    recognise=re.compile(r"\[ ?(FROM )?NOW ?[-\u2013\u2212]|\b(SELECT|CONSTRUCT|ASK|DESCRIBE) [RID]STREAM\b", re.IGNORECASE),
    clauses={"from_stream": _from_stream, "from_named_stream": _from_stream, "select_head": _output},
    patterns={},
    window="FROM STREAM <stream> [NOW - 10s SLIDE 5s]",
)
