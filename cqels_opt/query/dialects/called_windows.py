"""Windows of kinds that other packages add: ``[kind(arguments)]`` in CQELS-QL and RSP-QL (docs/extending.md)."""

from __future__ import annotations

from typing import Final

from cqels_opt import plugins
from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects.clauses import read_count, read_duration
from cqels_opt.query.mistakes import nearest
from cqels_opt.query.printing.style import LENGTHS, call_of, cannot
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.reading import Branch, Reading, branches, tokens

CALLED: Final = r"""
called_window: KIND "(" (duration ("," duration)*)? ")"
KIND: /[A-Za-z_][A-Za-z0-9_-]*(?=[ \t\r\n]*\()/
"""
"""The grammar of ``kind(arguments)``."""


def read_called(reading: Reading, tree: Branch, name: str, stream: str) -> Window:
    """The window of ``[kind(arguments)]``. An installed package adds the kind; its class names the fields that the arguments set."""
    kind, arguments = tokens(tree)[0], branches(tree)
    if kind not in (known := plugins.names("windows")):
        there = f"; there are {', '.join(known)}" if known else ""
        reading.fail(kind, f"no installed package adds the window kind {kind}{nearest(kind, known) or there}")
    parameters = getattr(plugins.load("windows", kind), "parameters", ())
    if len(arguments) != len(parameters):
        reading.fail(kind, f"the window kind {kind} takes ({', '.join(parameters)}), not {len(arguments)} arguments")
    values = {}
    for field, argument in zip(parameters, arguments):
        value = tokens(argument)[0]
        if field in LENGTHS:
            values[field] = read_duration(reading, argument)
        elif value.type == "INTEGER":
            (values[field],) = read_count(reading, argument)
        else:
            reading.fail(value, f"{value} is no whole number: {field} of the window kind {kind} is one")
    return Window(name, stream, str(kind), **values)


def written_call(writing: Writing, window: Window) -> str:
    """``kind(arguments)`` of a kind that another package adds. Another kind cannot be written."""
    return call_of(window) if window.kind in plugins.names("windows") else cannot(writing, window)
