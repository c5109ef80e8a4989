"""SPARQLstream: ``FROM NAMED STREAM <stream> [NOW - a TO NOW - b SLIDE c]`` and ``SELECT ISTREAM``, ``CONSTRUCT ISTREAM``.

All windows and the static default graph are matched as one graph; a named stream also by ``GRAPH <stream>``.
"""

from __future__ import annotations

import re
from typing import Final

from cqels_opt.query import durations
from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects.clauses import DURATIONS, OPERATORS, declare_stream, merge, read_duration
from cqels_opt.query.printing.style import Style, all_merged, cannot, distinct_streams, duration, graph_by_stream
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.reading import Branch, Dialect, Profile, Reading, branches, only, tokens

_GRAMMAR: Final = r"""
%extend select_head: "SELECT"i OUTPUT
%extend construct_query: "CONSTRUCT"i OUTPUT _constructed
%extend ask_query: "ASK"i OUTPUT dataset_clause* where_clause modifiers values_clause?
%extend describe_query: "DESCRIBE"i OUTPUT (var_or_iri+ | STAR) dataset_clause* where_clause? modifiers values_clause?
OUTPUT: /[RID]STREAM(?![A-Za-z0-9_])/i

%extend dataset_clause: "FROM"i "STREAM"i iri "[" window "]"                                    -> from_stream
    | "FROM"i "NAMED"i "STREAM"i iri "[" window "]"                                             -> from_named_stream

window: "FROM"i? "NOW"i _DASH duration ("TO"i "NOW"i (_DASH duration)?)? slide?
    | "NOW"i                                                                                    -> now
    | "RANGE"i duration ("SLIDE"i | "STEP"i) duration?                                          -> range
    | "RANGE"i duration "TUMBLING"i                                                             -> tumbling
slide: ("SLIDE"i | "STEP"i) duration
_DASH: /[-\u2013\u2212]/
"""


def _window(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    match tree.data:
        case "now":
            reading.note("[NOW] holds the elements of the instant itself")
            return Window(name, stream, "now")
        case "range" | "tumbling":
            return _range(reading, tree, name, stream)
    lengths = [read_duration(reading, part, least=0) for part in branches(tree) if part.data == "duration"]
    begin, end = (*lengths, 0)[:2]
    slide = only(tree, "slide")
    step = 0 if slide is None else read_duration(reading, branches(slide)[0])
    if begin <= end:
        reading.fail(tree, f"the window is empty: it begins {begin} ms before now and ends {end} ms before now")
    if end:
        return Window(name, stream, "past", begin, end, step=step)
    return Window(name, stream, "open-closed", begin, step) if step else Window(name, stream, "range", begin)


def _range(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    """``[RANGE a STEP b]`` as some texts of SRBench have it; without b, the step is one unit of the range, as in Streaming SPARQL."""
    width, *step = branches(tree)
    begin, unit = read_duration(reading, width), max(1, durations.unit(tokens(width)[0]) or 1)
    every = begin if tree.data == "tumbling" else read_duration(reading, step[0]) if step else unit
    meant = f"{' '.join(reading.source(tree).split())} is read as NOW - {duration(begin)} SLIDE {duration(every)}"
    reading.note(meant if step or tree.data == "tumbling" else f"{meant}: a step without a value is one unit of the range")
    return Window(name, stream, "open-closed", begin, every)


def _from_stream(reading: Reading, tree: Branch) -> None:
    merge(reading, declare_stream(reading, tree, _window))


def _output(reading: Reading, tree: Branch) -> None:
    reading.operator = OPERATORS[tokens(tree)[0].upper()]


def _written(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "open-closed", width, slide):
            text = f"NOW - {duration(width)} SLIDE {duration(slide)}"
        case Window(_, _, "range", width):
            text = f"NOW - {duration(width)}"
        case Window(_, _, "now"):
            text = "NOW"
        case Window(_, _, "past", width, end, step=step):
            text = f"NOW - {duration(width)} TO NOW - {duration(end)}" + (f" SLIDE {duration(step)}" if step else "")
        case _:
            return cannot(writing, window)
    return f"FROM {'NAMED ' * (window.name in writing.whole.alone)}STREAM {window.stream} [{text}]"


def _operator(writing: Writing) -> str:
    return f" {writing.query.operator.upper()}" if writing.query.operator is not None else ""


DIALECT = Dialect(
    name="sparqlstream",
    grammar=DURATIONS + _GRAMMAR,
    recognise=re.compile(
        r"\[ ?(FROM )?NOW ?[-\u2013\u2212]|\b(SELECT|CONSTRUCT|ASK|DESCRIBE) [RID]STREAM\b"
        r"|\bFROM (NAMED )?STREAM (<>|[\w.-]*:[\w.-]*) ?\[ ?NOW ?\](?! ?AS)"
        r"|\bNAMED STREAM (<>|[\w.-]*:[\w.-]*) ?\[ ?RANGE [^]]*\b(STEP|SLIDE|TUMBLING)\b[^]]*\](?! ?AS)",
        re.IGNORECASE,
    ),
    clauses={"from_stream": _from_stream, "from_named_stream": _from_stream, "select_head": _output},
    window="FROM STREAM <stream> [NOW - 10s SLIDE 5s]",
    profile=Profile("wc,nc", "rstream", "set"),
    style=Style(
        _written,
        graph_by_stream,
        all_merged,
        operator=_operator,
        check=lambda writing: distinct_streams(writing, writing.whole.alone),
    ),
)
