"""The report's language and CQELS-QL.

Windows stand after ``FROM NAMED <stream>`` and are named by a variable, or inline after ``STREAM <stream>``.
"""

from __future__ import annotations

import re

from cqels_opt.query.algebra import Algebra, InWindow, Source, Variable, Window
from cqels_opt.query.dialects.called_windows import read_called
from cqels_opt.query.dialects.forms import grammar, read_count, read_duration, register, stream_of
from cqels_opt.query.reading import Branch, Dialect, Reading, branches, span, tokens


def _window(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    if tree.data == "called":
        return read_called(reading, tree, name, stream)
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


DIALECT = Dialect(
    name="cqels",
    grammar=grammar("cqels"),
    recognise=re.compile(r"\] ?AS [?$]|(?<!FROM )(?<!NAMED )\bSTREAM (<>|[\w.-]*:[\w.-]*) ?\[[^]]*\] ?\{", re.IGNORECASE),
    clauses={"named_window": _named_window, "registration": register},
    patterns={"stream_block": _stream_block},
    window="FROM NAMED <stream> [RANGE 10s SLIDE 5s] AS ?w",
)
