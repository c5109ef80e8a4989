"""Answers on standard output in other formats than JSON lines, and the first of them only."""

from __future__ import annotations

import csv
import io
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO, cast

from cqels_opt.cli.options import RunOptions
from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Query
from cqels_opt.rdf.terms import XSD_STRING, literal
from cqels_opt.trace.figures import clock


def check_format(options: RunOptions, queries: Sequence[Query]) -> None:
    """InputError if the answers of the queries have no such format."""
    form = options.format
    if (form != "json" or options.limit is not None) and (options.out is not None or options.out_topic is not None):
        given = "--limit" if form == "json" else f"--format {form}"
        raise InputError(f"{given}: it is for answers on standard output; leave --out out")
    if form in ("table", "csv") and (len(queries) > 1 or queries[0].form is not None):
        raise InputError(f"--format {form}: it has one column per variable of one SELECT query; take --format json")
    if form == "nt" and any(query.form is None or type(query.form).__name__ == "Ask" for query in queries):
        raise InputError("--format nt: it has the triples of CONSTRUCT and DESCRIBE; take --format json, table or csv")


class AnswerText:
    """Takes JSON lines of answers and writes them in the format of the options. After ``limit`` answers the run is interrupted."""

    def __init__(self, options: RunOptions, names: Sequence[str], to: TextIO | None = None) -> None:
        self._format, self._limit = options.format, options.limit
        self.printed = 0  # answers
        self._names = list(names)
        self._to = to or sys.stdout
        self._widths = [0] * (len(self._names) + 2)
        self._began = False

    def write(self, text: str) -> int:
        """Writes some lines."""
        lines = [f"{line}\n" for line in text.split("\n")[:-1]]  # str.splitlines ends lines at U+2028 as well
        left = len(lines) if self._limit is None else self._limit - self.printed
        stop = self._limit is not None and len(lines) >= left > 0
        lines = lines[:left]
        self.printed += len(lines)
        if stop:
            signal.raise_signal(signal.SIGINT)  # the main thread ends the run as after Ctrl-C
        self._to.write("".join(lines) if self._format == "json" else self._formatted([json.loads(line) for line in lines]))
        return len(text)

    def flush(self) -> None:
        """Flushes."""
        self._to.flush()

    def _formatted(self, answers: Sequence[dict[str, Any]]) -> str:
        if self._format == "nt":
            return "".join(f"{' '.join(triple)} .\n" for answer in answers for triple in answer["triples"])
        rows = [self._row(answer) for answer in answers]
        if rows and not self._began:
            rows.insert(0, ["time", "op", *self._names])
            self._began = True
        if self._format == "csv":
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows(rows)
            return out.getvalue()
        self._widths = [max(width, *(len(row[i]) for row in rows)) if rows else width for i, width in enumerate(self._widths)]
        return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, self._widths)).rstrip() + "\n" for row in rows)

    def _row(self, answer: dict[str, Any]) -> list[str]:
        found = (answer["bindings"].get(name) for name in self._names)
        time = clock(answer["time"]) if self._format == "table" else str(answer["time"])
        return [time, answer["op"], *("" if binding is None else _cell(binding) for binding in found)]


def _cell(binding: Mapping[str, Any]) -> str:
    """An IRI or the value of a literal, as in SPARQL's CSV; of a blank node and a triple term the term."""
    return binding["value"] if binding["type"] in ("uri", "literal") else _term(binding)


def _term(binding: Mapping[str, Any]) -> str:
    """The canonical text of a term of SPARQL's JSON."""
    value = binding["value"]
    match binding["type"]:
        case "triple":
            return f"<<( {' '.join(_term(value[part]) for part in ('subject', 'predicate', 'object'))} )>>"
        case "uri":
            return f"<{value}>"
        case "bnode":
            return f"_:{value}"
    direction = f"--{binding['its:dir']}" if "its:dir" in binding else ""
    language = binding["xml:lang"] + direction if "xml:lang" in binding else None
    return literal(value, binding.get("datatype", XSD_STRING), language)


def answer_text(options: RunOptions, query: Query) -> TextIO | None:
    """Where answers on standard output go; None for all answers as JSON lines."""
    if options.format == "json" and options.limit is None:
        return None
    return cast("TextIO", AnswerText(options, [variable.name for variable in query.variables]))
