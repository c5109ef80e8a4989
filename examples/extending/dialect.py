"""The dialect ``latest``: C-SPARQL, with windows written ``FROM STREAM <stream> LATEST 10s EVERY 5s``."""

import re
from dataclasses import replace

from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects.clauses import declare_stream, merge, read_duration
from cqels_opt.query.dialects.csparql import DIALECT as CSPARQL
from cqels_opt.query.printing.style import cannot, duration
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.reading import Branch, Reading, branches

GRAMMAR = """
%extend dataset_clause: "FROM"i "STREAM"i iri latest -> from_latest
latest: "LATEST"i duration "EVERY"i duration
"""


def read_window(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    """The window of a ``latest`` rule: [close - width, close) at each multiple of the slide."""
    width, slide = (read_duration(reading, part) for part in branches(tree))
    return Window(name, stream, "closed-open", width, slide)


def read_clause(reading: Reading, tree: Branch) -> None:
    """Declare the window of a ``from_latest`` clause, and match the query's patterns in it."""
    merge(reading, declare_stream(reading, tree, read_window))


def write_window(writing: Writing, window: Window) -> str:
    """The clause that declares a window; a QueryError where this dialect has none for it."""
    if window.kind != "closed-open":
        return cannot(writing, window)
    return f"FROM STREAM {window.stream} LATEST {duration(window.width)} EVERY {duration(window.slide)}"


DIALECT = replace(
    CSPARQL,
    name="latest",
    grammar=CSPARQL.grammar + GRAMMAR,
    recognise=re.compile(r"\bFROM STREAM [^ ]+ LATEST\b", re.IGNORECASE),
    clauses={**CSPARQL.clauses, "from_latest": read_clause},
    window="FROM STREAM <stream> LATEST 10s EVERY 5s",
    style=replace(CSPARQL.style, window=write_window),
)
