"""C-SPARQL: ``FROM STREAM <stream> [RANGE d STEP d]``; all windows and the static default graph are matched as one graph."""

from __future__ import annotations

import re
from typing import Final

from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects.clauses import DURATIONS, HEADER, declare_stream, merge, read_count, read_duration, register
from cqels_opt.query.printing.style import Style, all_merged, cannot, duration, registered
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.reading import Branch, Dialect, Profile, Reading, branches

_GRAMMAR: Final = r"""
registration: "REGISTER"i ("QUERY"i | "STREAM"i) registered_name computed_every? "AS"i

%extend dataset_clause: "FROM"i "STREAM"i iri "[" window "]"                                    -> from_stream

window: "RANGE"i duration "STEP"i duration                                                      -> range
    | "RANGE"i duration "SLIDE"i duration                                                       -> sliding
    | "RANGE"i duration "TUMBLING"i                                                             -> range
    | "RANGE"i "TRIPLES"i INTEGER                                                               -> triples
"""


def _window(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    if tree.data == "triples":
        return Window(name, stream, "last", count=read_count(reading, tree)[0])
    if tree.data == "sliding":
        reading.note("SLIDE is read as STEP, the word of C-SPARQL")
    lengths = [read_duration(reading, part) for part in branches(tree)]
    return Window(name, stream, "closed-open", lengths[0], lengths[-1])


def _from_stream(reading: Reading, tree: Branch) -> None:
    merge(reading, declare_stream(reading, tree, _window))


def _written(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "closed-open", width, slide):
            text = f"RANGE {duration(width)} " + ("TUMBLING" if width == slide else f"STEP {duration(slide)}")
        case Window(_, _, "last", count=count, every=0):
            text = f"RANGE TRIPLES {count}"
        case _:
            return cannot(writing, window)
    return f"FROM STREAM {window.stream} [{text}]"


DIALECT = Dialect(
    name="csparql",
    grammar=DURATIONS + HEADER + _GRAMMAR,
    recognise=re.compile(r"\bFROM STREAM\b|\bREGISTER (QUERY|STREAM)\b", re.IGNORECASE),
    clauses={"registration": register, "from_stream": _from_stream},
    window="FROM STREAM <stream> [RANGE 10s STEP 5s]",
    profile=Profile("wc,nc", "rstream", "set"),
    timestamps=True,
    style=Style(_written, default=all_merged, header=registered("STREAM")),
)
