"""The queries of a command, as input for the engine."""

from __future__ import annotations

import csv
import io
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.warnings_console import warn
from cqels_opt.compiler.registration import check_name
from cqels_opt.compiler.static_subpatterns import BYTES_BUDGET
from cqels_opt.errors import EngineWarning, InputError, QueryError, first_of
from cqels_opt.lod.open_store import open_store
from cqels_opt.query.algebra import GraphsMerged, NamedGraph, Query
from cqels_opt.query.never_bound import likely_mistakes
from cqels_opt.query.printing import to_text
from cqels_opt.query.printing.writing import found_in
from cqels_opt.query.texts import Reader
from cqels_opt.rdf.terms import escape
from cqels_opt.windows.instants import Policy


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query, its name (None: it comes from no file), and the options for its windows."""

    file: Path
    text: str
    query: Query
    id: str | None
    report: Mapping[str, Policy]
    t0: Mapping[str, int]


def query_requests(options: RunOptions) -> list[QueryRequest]:
    """The queries of the options. They are named after their files; options may name a window of any of them."""
    texts = instances_of(options) if options.instances is not None else _files(options)
    texts = [(path, f"{_prologue(options)}{text}", name, line) for path, text, name, line in texts]
    with places_as_written(options):
        queries = _read(texts, options)
    one = len(queries) == 1
    windows = {window.name for query in queries for window in query.windows}
    for option, given in (("--report", options.report), ("--t0", options.t0)):
        if not one and (wrong := sorted(set(given) - windows - {""})):
            raise InputError(f"{option} {wrong[0]}=…: no query has a window {wrong[0]}; there are {', '.join(sorted(windows))}")
    found: list[QueryRequest] = []
    for (path, text, name, _), query in zip(texts, queries):
        own = {"", *(window.name for window in query.windows)}
        report = {name: policy for name, policy in options.report.items() if one or name in own}
        t0 = {name: time for name, time in options.t0.items() if one or name in own}
        found.append(QueryRequest(path, text, query, name, report, t0))
    return found


def _prologue(options: RunOptions) -> str:
    """What ``--base`` puts before each text."""
    return "" if options.base is None else f"BASE <{options.base}> "


@contextmanager
def places_as_written(options: RunOptions) -> Iterator[None]:
    """A QueryError has its place in the text that the user has written, which ``--base`` is not a part of."""
    try:
        yield
    except QueryError as error:
        if (before := _prologue(options)) and error.text.startswith(before):
            error.text = error.text.removeprefix(before)
            error.column -= len(before) if error.line == 1 else 0
        raise


def _read(texts: Texts, options: RunOptions) -> list[Query]:
    """The queries of texts. An error in a text that a row of ``--instances`` has filled in names the row."""
    reader, found = Reader(), list[Query]()
    for path, text, _, line in texts:
        try:
            found.append(reader.read(text, options.dialect, str(path))[0])
        except QueryError as error:
            if line is not None:
                error.file = f"{options.instances}:{line}: with the values of this line, {error.file}"
            raise
    return found


def warn_of_mistakes(queries: Sequence[QueryRequest]) -> None:
    """Warns about conditions that can never be true and variables of SELECT that nothing binds, once each; with several files, per file."""
    several = len({request.file for request in queries}) > 1
    found = [(f"{request.file}: " if several else "", likely_mistakes(request.query)) for request in queries]
    for sentence in dict.fromkeys(f"{file}{sentence}" for file, sentences in found for sentence in sentences):
        warn(sentence)


@contextmanager
def mistakes_as_warnings(queries: Sequence[QueryRequest]) -> Iterator[None]:
    """:func:`warn_of_mistakes` after a block that registers the queries, instead of the warnings that Python users get."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EngineWarning)
        yield
    warn_of_mistakes(queries)


def warn_of_absent_graphs(queries: Iterable[QueryRequest], place: Path | str, loaded: bool = False) -> None:
    """Warns about named graphs that the queries read and the static data do not have, once each; ``loaded``: of a store that was given."""
    store = open_store(place)
    existing = list(filter(None, store.decode(store.named_graphs())))
    for name in dict.fromkeys(name for request in queries for name in _graphs_of(request.query)):
        if name not in existing:
            known = f"there is {first_of(existing)}" if existing else "there is no named graph"
            command = "cqels-opt load … " if loaded else ""
            option = f"{command}--graph {shlex.quote(name[1:-1])} PATH"
            warn(f"the static data have no graph {name}, in which the query looks for triples: load it with {option}; {known}")


def _graphs_of(query: Query) -> Iterator[str]:
    """The static graphs that a query names."""
    for source in found_in(query.body, NamedGraph):
        if isinstance(source.name, str):
            yield source.name
    for merged in found_in(query.body, GraphsMerged):
        yield from merged.names
    if query.dataset is not None:
        yield from query.dataset.named


def registration_options(query: QueryRequest, options: RunOptions) -> dict[str, Any]:
    """The options for a query as parameters of :func:`~cqels_opt.compiler.registration.record_of`."""
    return {
        "id": query.id,
        "dialect": options.dialect,
        "profile": options.profile,
        "report": query.report,
        "output_operator": options.output_operator,
        "duplicates": options.duplicates,
        "bounds": options.bounds,
        "t0": query.t0,
        "file": str(query.file),
        "sub_result_bytes": BYTES_BUDGET if options.sub_result_bytes is None else options.sub_result_bytes,
    }


Texts: TypeAlias = "list[tuple[Path, str, str | None, int | None]]"
"""The file of each query, its text, its name, None for one that comes from no file, and the line of its instance."""


def _files(options: RunOptions) -> Texts:
    paths = options.queries
    if options.text is not None:
        return [(options.query, options.text, None, None)]
    return [(path, _text(path), name, None) for path, name in zip(paths, _names([path.stem for path in paths]))]


def instances_of(options: RunOptions) -> Texts:
    """One query per row of a file: ``$NAME$`` in its text is the value of column NAME; a column ``id`` names the queries."""
    path, file = options.query, options.instances
    assert file is not None
    if options.more:
        raise InputError("--instances is of one query: give its file alone")
    text = _text(path) if options.text is None else options.text
    reader = csv.reader(io.StringIO(_text(file, newline=""), newline=""), strict=True)  # an open quote at the end is an error
    try:
        rows = [(reader.line_num, row) for row in reader if row]  # not of blank lines
    except csv.Error as error:
        raise InputError(f"{file}:{reader.line_num}: {error}; a quote may lack its end") from error
    if len(rows) < 2:
        raise InputError(f"{file}: it needs one line with the names of the columns, and one line per instance")
    heads = [head.strip() for head in rows[0][1]]
    if twice := [head for head in heads if heads.count(head) > 1]:
        raise InputError(f"{file}:{rows[0][0]}: two columns have the name {twice[0]}")
    used = [head for head in heads if f"${head}$" in text]
    if not used:
        asked = dict.fromkeys(re.findall(r"\$\w+\$", text))
        if asked:
            raise InputError(f"{path}: --instances {file} has no column for {', '.join(asked)}; it has {', '.join(heads)}")
        raise InputError(
            f"{path}: the text has no $NAME$ that --instances {file} would fill in; its columns are {', '.join(heads)}"
        )
    place = re.compile("|".join(re.escape(f"${head}$") for head in used))
    stems = _names([f"{path.stem}_{number}" for number in range(1, len(rows))])
    found: Texts = []
    lines: dict[str, int] = {}  # by id
    for stem, (number, row) in zip(stems, rows[1:]):
        if len(row) != len(heads):
            raise InputError(f"{file}:{number}: {len(row)} values, but {len(heads)} columns")
        values = {f"${head}$": value for head, value in zip(heads, row)}
        name = values.get("$id$") or stem
        check_name(name, f"{file}:{number}: ")
        if lines.setdefault(name, number) != number:
            raise InputError(f"{file}:{number}: the id {name} is also that of line {lines[name]}")
        found.append((path, _filled(text, place, values), name, number))
    return found


_PIECES: Final = r"""
    (?P<quoted> "{3}(?:[^\\]|\\.)*?"{3} | '{3}(?:[^\\]|\\.)*?'{3} | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*' | \#[^\n\r]* )
  | <[^<>"{}|^`\\\s]*> | \\."""
"""Strings and comments of a query, and what may contain an apostrophe or ``#`` as well: an IRI, an escape of a local name."""


def _filled(text: str, place: re.Pattern[str], values: Mapping[str, str]) -> str:
    """The text with values: escaped within strings, and as they are elsewhere, where a value may be a literal."""

    def as_written(match: re.Match[str]) -> str:
        return values[match[0]]

    def escaped(match: re.Match[str]) -> str:
        return escape(values[match[0]]).replace("'", "\\'")

    pieces = re.compile(f"{_PIECES}|{place.pattern}", re.VERBOSE | re.DOTALL)
    return pieces.sub(lambda piece: place.sub(escaped if piece["quoted"] else as_written, piece[0]), text)


def translated(options: RunOptions, dialect: str) -> str:
    """The queries of the options in another dialect."""
    return "\n".join(to_text(request.query, dialect) for request in query_requests(options))


def _names(stems: Sequence[str]) -> list[str]:
    """Unique names for queries that are valid as file names."""
    taken: dict[str, int] = {}
    names: dict[str, None] = {}
    for stem in (re.sub(r"[^\w.-]", "_", stem) or "_" for stem in stems):
        name = stem
        while name in names:
            taken[stem] = taken.get(stem, 1) + 1
            name = f"{stem}_{taken[stem]}"
        names[name] = None
    return list(names)


def _text(path: Path, newline: str | None = None) -> str:
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:  # without a byte order mark
            return file.read()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error
