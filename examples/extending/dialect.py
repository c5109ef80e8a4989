"""The dialect ``latest``: C-SPARQL, with windows written ``FROM LATEST 10s EVERY 5s OF <stream>``."""

import re
from dataclasses import replace

from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects.clauses import merge, read_duration, stream_of
from cqels_opt.query.dialects.csparql import DIALECT as CSPARQL
from cqels_opt.query.printing.style import cannot, duration
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.reading import Branch, Reading, branches, span

GRAMMAR = """
%extend dataset_clause: "FROM"i "LATEST"i duration "EVERY"i duration "OF"i iri -> from_latest
"""


def read(reading: Reading, tree: Branch) -> None:
    """Declare the window of one clause, and match the query's patterns in it."""
    width, slide = (read_duration(reading, part) for part in branches(tree) if part.data == "duration")
    stream = stream_of(reading, tree)
    window = Window(reading.free_window_name(stream), stream, "closed-open", width, slide)
    reading.declare(window, None, tree, *span(tree))
    merge(reading, window)


def write(writing: Writing, window: Window) -> str:
    """The clause that declares a window; a QueryError where this dialect has none for it."""
    if window.kind != "closed-open":
        return cannot(writing, window)
    return f"FROM LATEST {duration(window.width)} EVERY {duration(window.slide)} OF {window.stream}"


DIALECT = replace(
    CSPARQL,
    name="latest",
    grammar=CSPARQL.grammar + GRAMMAR,
    recognise=re.compile(r"\bFROM LATEST\b", re.IGNORECASE),
    clauses={**CSPARQL.clauses, "from_latest": read},
    window="FROM LATEST 10s EVERY 5s OF <stream>",
    style=replace(CSPARQL.style, window=write),
)
