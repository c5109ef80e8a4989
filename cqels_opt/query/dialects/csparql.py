"""C-SPARQL: ``FROM STREAM <stream> [RANGE d STEP d]``; all windows and the static default graph are matched as one graph."""

from __future__ import annotations

import re

from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects.forms import grammar, merge, read_count, read_duration, register, stream_of
from cqels_opt.query.reading import Branch, Dialect, Reading, branches, span


def _from_stream(reading: Reading, tree: Branch) -> None:
    stream, form = stream_of(reading, tree), branches(tree)[1]
    name = reading.free_window_name(stream)
    if form.data == "triples":
        window = Window(name, stream, "last", count=read_count(reading, form)[0])
    else:
        lengths = [read_duration(reading, part) for part in branches(form)]
        window = Window(name, stream, "closed-open", lengths[0], lengths[-1])
    reading.declare(window, None, tree, *span(tree))
    merge(reading, window)


DIALECT = Dialect(
    name="csparql",
    grammar=grammar("csparql"),
    recognise=re.compile(r"\bFROM STREAM\b|\bREGISTER (QUERY|STREAM)\b", re.IGNORECASE),
    clauses={"registration": register, "from_stream": _from_stream},
    patterns={},
    window="FROM STREAM <stream> [RANGE 10s STEP 5s]",
)
