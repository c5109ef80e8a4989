"""Decodes messages to elements: the bytes of a message are RDF, rows of terms, or columns that a mapping converts to triples.

A message is accepted or rejected as a whole: if it cannot be decoded, it is rejected with a reason and none of its triples is
used.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox
from numpy.typing import NDArray

from cqels_opt.errors import InputError
from cqels_opt.rdf.canonical import canonical_texts
from cqels_opt.rdf.documents import LineByLine
from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.rdf.lines import BYTE_ORDER_MARK
from cqels_opt.rdf.mapping import Number, RecordMapping, read_mapping, value_at
from cqels_opt.rdf.tabular import csv_rows
from cqels_opt.rdf.terms import MAX_DEPTH
from cqels_opt.rdf.terms import triple as triple_term
from cqels_opt.rdf.times import EXPECTED, GREATEST, in_range, parse_times

Ints: TypeAlias = "NDArray[np.int64]"
Row: TypeAlias = "tuple[str, str, str, str | None, str | None]"  # s, p, o, g and the time as text; None: the message's own time

DOCUMENTS: Final = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "ttl": ox.RdfFormat.TURTLE,
    "nq": ox.RdfFormat.N_QUADS,
    "trig": ox.RdfFormat.TRIG,
    "jsonld": ox.RdfFormat.JSON_LD,
}
ROWS: Final = "json"
FORMATS: Final = (ROWS, *DOCUMENTS)
ELEMENT_BITS: Final = 16
"""The number of bits of an element number within a message."""

SHOWN = 80
MOST_REASON = 400
TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.?)*+"?+', re.DOTALL)  # an unclosed string ends with the message: no rescans
_STEP: Final = np.zeros(256, np.int64)
_STEP[list(b"[{")], _STEP[list(b"]}")] = 1, -1


@dataclass(frozen=True, slots=True)
class Payload:
    """How messages are decoded: a format of ``FORMATS``, or a mapping of columns to triples.

    ``time_predicate`` connects a graph to its time in ``nq``, ``trig`` and ``jsonld``; in a message without named graphs it
    connects any subject to the time.
    """

    format: str = ROWS
    mapping: RecordMapping | None = None
    time_predicate: str = GENERATED_AT


def payload_of(text: str | Path, time_predicate: str = GENERATED_AT) -> Payload:
    """The payload that a user names: one of ``FORMATS``, or the file of a mapping (``.toml``)."""
    if str(text).endswith(".toml"):
        return Payload("mapping", read_mapping(Path(text)), time_predicate)
    if text not in FORMATS:
        raise InputError(f"{str(text)!r} is no payload: known are {', '.join(FORMATS)}, or the file of a mapping, NAME.toml")
    return Payload(str(text), None, time_predicate)


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that cannot be used, by its index, and the reason."""

    message: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows of messages: terms (canonical), time in ms, the message of each row and its element number in that message."""

    s: pa.StringArray
    p: pa.StringArray
    o: pa.StringArray
    g: pa.StringArray
    t: Ints
    message: Ints
    element: Ints
    refused: list[Refused] = field(default_factory=list)

    def numbers(self) -> Ints:
        """Element numbers over all messages, from 0; the rows of an element need not be contiguous."""
        _, of = np.unique(np.stack([self.message, self.element]), axis=1, return_inverse=True)
        return np.asarray(of, np.int64).ravel()


def decode(payload: Payload, values: Sequence[bytes | None], times: Sequence[int | None], scopes: Sequence[str]) -> Decoded:
    """The rows of messages, in their order.

    ``times`` (ms) are the messages' own, for elements without a time. Rows of a message with equal ``g`` and ``t`` are one
    element. Blank nodes are local to a document: ``scopes`` separates those of different messages and is the same when a message
    is read again.
    """
    read = _reader(payload)
    columns: tuple[list[Any], ...] = ([], [], [], [], [])
    owner: list[int] = []
    refused: dict[int, str] = {}
    for number, value in enumerate(values):
        try:
            if not value:
                raise ValueError("is empty")
            rows = read(value.removeprefix(BYTE_ORDER_MARK), scopes[number])
            _check_characters(rows)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  a panic of pyoxigraph is no Exception; no message fails others
            reason = str(error) if isinstance(error, ValueError) else f"cannot be read ({type(error).__name__}: {error})"
            refused[number] = _with_excerpt(reason, value)
            continue
        for row in rows:
            for column, cell in zip(columns, row):
                column.append(cell)
        owner += [number] * len(rows)
    terms: list[Any] = [canonical_texts(pa.array(column, pa.string())) for column in columns[:4]]
    message = np.array(owner, np.int64)
    t = _checked(columns, terms, message, times, refused, values)
    good = ~np.isin(message, np.fromiter(refused, np.int64, len(refused)))
    element = _elements(message, terms[3], t)
    for number in np.unique(message[good & (element >= 1 << ELEMENT_BITS)]).tolist():
        refused[number] = f"holds more than {1 << ELEMENT_BITS:,} elements"
        good &= message != number
    kept = pa.array(good)
    s, p, o, g = terms if good.all() else [column.filter(kept) for column in terms]
    reasons = [Refused(number, refused[number]) for number in sorted(refused)]
    return Decoded(s, p, o, g, t[good], message[good], element[good], reasons)


def _check_characters(rows: Sequence[Row]) -> None:
    """Rejects half of a surrogate pair, which a JSON escape can contain: Arrow cannot store it."""
    for row in rows:
        for cell in row:
            if cell is not None and not cell.isascii() and any("\ud800" <= character <= "\udfff" for character in cell):
                raise ValueError("has half of a surrogate pair, which is no character")


def _with_excerpt(reason: str, value: bytes | None) -> str:
    """A reason as encodable text with the beginning of the message, so that readers of the rejections need not look it up."""
    reason = reason.encode(errors="backslashreplace").decode()
    reason = reason if len(reason) <= MOST_REASON else reason[: MOST_REASON - 3] + "..."  # some reasons quote the whole message
    if not value:
        return reason
    text = value[: SHOWN + 1].decode(errors="backslashreplace")
    return f"{reason}; the message begins {text[:SHOWN]!a}" if len(text) > SHOWN else f"{reason}; the message is {text!a}"


# ------------------------------------------------------------------ common to all formats
def _checked(
    columns: Sequence[list[Any]],
    terms: Sequence[Any],
    message: Ints,
    times: Sequence[int | None],
    refused: dict[int, str],
    values: Sequence[bytes | None],
) -> Ints:
    """The rows' times; rejects messages with an invalid term or time, at the first one."""

    def refuse(wrong: NDArray[np.bool_], reason: Callable[[int], str]) -> None:
        for row in np.flatnonzero(wrong).tolist():
            number = int(message[row])
            if number not in refused:
                refused[number] = _with_excerpt(reason(row), values[number])

    for name, given, term, begins in zip("spog", columns, terms, ("<_", "<", '<_"', "<_")):
        absent = np.array([cell is None for cell in given], bool)
        allowed = np.zeros(len(term), bool)
        for character in begins:
            allowed |= np.asarray(pc.fill_null(pc.starts_with(term, character), False).to_numpy(zero_copy_only=False))
        wrong = ~allowed & ~absent if name == "g" else ~allowed
        refuse(wrong, lambda row, n=name, c=given: f"{n} is {_shown(c[row])}, which cannot stand there")  # type: ignore[misc]
    own = np.array([cell is None for cell in columns[4]], bool)
    t, valid = parse_times(pa.array(columns[4], pa.string()))
    refuse(~valid & ~own, lambda row: f"{columns[4][row]!r} is not a time: expected {EXPECTED}")
    of_message = np.array([GREATEST + 1 if time is None else time for time in times], np.int64)
    t = np.where(own, of_message[message], t) if len(t) else t
    refuse(own & ~in_range(t), lambda _: "has no time, nor has what brought it")
    return np.asarray(t, np.int64)


def _shown(cell: str | None) -> str:
    return "missing" if cell is None else ascii(cell if len(cell) <= SHOWN else cell[: SHOWN - 3] + "...")


def _elements(message: Ints, g: Any, t: Ints) -> Ints:
    """The element number of each row within its message: rows with equal ``g`` and ``t`` are one element, by first row."""
    if not len(message):
        return message
    graph = g.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    keys = np.stack([message, graph, t])
    _, first, of = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[of.ravel()]  # elements in order of their first rows, over all messages
    begins = np.flatnonzero(np.append(True, message[1:] != message[:-1]))
    return np.asarray(number - number[begins][np.cumsum(np.append(0, message[1:] != message[:-1]))], np.int64)


# ------------------------------------------------------------------ formats
def _reader(payload: Payload) -> Callable[[bytes, str], list[Row]]:
    """The function that decodes one message; it raises ``ValueError`` with the reason."""
    mapping = payload.mapping
    if mapping is not None:
        return lambda value, scope: _mapped(mapping, value, scope)
    if payload.format == ROWS:
        return lambda value, _: _rows(value)
    kind = DOCUMENTS[payload.format]
    return lambda value, scope: _document(value, scope, payload.format, kind, payload.time_predicate)


def _no_constant(name: str) -> Any:
    raise ValueError(f"is not JSON: {name} is no number there")


_PLAIN: Final = json.JSONDecoder(parse_constant=_no_constant)
_EXACT: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=Number)


def _check_depth(value: bytes) -> None:
    """Rejects JSON that is nested too deeply before a recursive parser reads it, because a stack overflow cannot be caught."""
    if value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return
    steps = _STEP[np.frombuffer(_STRINGS.sub(b"", value), np.uint8)]
    if len(steps) and int(np.cumsum(steps).max()) > MAX_DEPTH:
        raise ValueError(TOO_DEEP)


def _json(value: bytes, decoder: json.JSONDecoder) -> Any:
    _check_depth(value)
    try:
        return decoder.decode(value.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from error


def _records(found: Any) -> list[Mapping[str, Any]]:
    records = found if isinstance(found, list) else [found]
    if not records:
        raise ValueError("is an empty list")
    if not all(isinstance(record, dict) for record in records):
        raise ValueError("is neither an object nor a list of objects")
    return records


def _rows(value: bytes) -> list[Row]:
    """Objects with ``s p o`` (N-Triples terms) and optionally ``g`` and ``t``: one object or a list."""
    rows: list[Row] = []
    for record in _records(_json(value, _PLAIN)):
        for name in "spog":
            cell = record.get(name)
            if not (isinstance(cell, str) or (cell is None and name == "g")):
                raise ValueError(f"{name} is {'missing' if cell is None else json.dumps(cell)[:SHOWN] + ', not text'}")
        t = record.get("t")
        if t is not None and (isinstance(t, bool) or not isinstance(t, str | int)):
            raise ValueError(f"t is {json.dumps(t)[:SHOWN]}, not {EXPECTED}")
        rows.append((record["s"], record["p"], record["o"], record.get("g") or None, None if t is None else str(t)))
    return rows


def _mapped(mapping: RecordMapping, value: bytes, scope: str) -> list[Row]:
    if mapping.format == "csv":
        records = _csv_records(mapping, value)
    else:
        found = _json(value, _EXACT)
        if mapping.iterator:
            found = value_at(found, mapping.iterator) if isinstance(found, dict) else None
            if found is None:
                raise ValueError(f"has no {mapping.iterator}")
        records = _records(found)
    rows: list[Row] = []
    for record in records:
        time = mapping.time_of(record)
        rows += [(_scoped(s, scope), p, _scoped(o, scope), g, time) for s, p, o, g in mapping.triples(record)]
    return rows


def _scoped(term: str, scope: str) -> str:
    return f"_:{scope}{term[2:]}" if term.startswith("_:") else term


def _csv_records(mapping: RecordMapping, value: bytes) -> list[Mapping[str, Any]]:
    lines = csv_rows(value, delimiter=mapping.delimiter, strict=True)
    for line in lines:
        if len(line) != len(mapping.columns):
            raise ValueError(f"has {len(line)} columns, not {len(mapping.columns)} as the mapping says")
    if not lines:
        raise ValueError("is an empty list")
    return [{name: cell or None for name, cell in zip(mapping.columns, line)} for line in lines]


def _document(value: bytes, scope: str, name: str, kind: ox.RdfFormat, time_predicate: str) -> list[Row]:
    """The triples of a document as rows.

    A named graph has the time given in the default graph; other triples of the default graph are ignored. Without named graphs
    all triples are one element, with the time that one of them gives.
    """
    if kind == ox.RdfFormat.JSON_LD:
        _check_depth(value)
    shallow = LineByLine(io.BytesIO(value)) if value.count(b"<<") > MAX_DEPTH else None
    try:
        quads = list(ox.parse(cast("BinaryIO", shallow) if shallow is not None else value, format=kind))
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        reason = shallow.reason(reason) if shallow is not None else reason
        if "LoadDocumentCallback" in reason:
            reason = "it names a remote @context, which is not fetched: the context must stand in the message"
        raise ValueError(f"is not {_NAMES[name]}: {reason}") from error
    labels: dict[str, str] = {}

    def text(term: Any) -> str:
        if isinstance(term, ox.BlankNode):
            return labels.setdefault(term.value, f"_:{scope}b{len(labels)}")
        if isinstance(term, ox.Triple):
            return triple_term(text(term.subject), text(term.predicate), text(term.object))
        return str(term)

    times_of: dict[str, str] = {}
    default: list[tuple[str, str, str]] = []
    named: list[tuple[str, str, str, str]] = []
    for quad in quads:
        s, p, o = text(quad.subject), text(quad.predicate), text(quad.object)
        if not isinstance(quad.graph_name, ox.DefaultGraph):
            named.append((s, p, o, text(quad.graph_name)))
            continue
        default.append((s, p, o))
        if quad.predicate.value == time_predicate:
            if not isinstance(quad.object, ox.Literal):
                raise ValueError(f"the time of {s} is {o}, not a literal")
            if times_of.setdefault(s, quad.object.value) != quad.object.value:
                raise ValueError(f"{s} has a second time, {quad.object.value!r}")
    if named:
        return [(s, p, o, g, times_of.get(g)) for s, p, o, g in named]
    if not default:
        raise ValueError("holds no triple")
    if len(known := set(times_of.values())) > 1:
        raise ValueError(f"has {len(known)} times, and no named graphs that they are of")
    return [(s, p, o, None, next(iter(known), None)) for s, p, o in default]


_NAMES = {"nt": "N-Triples", "ttl": "Turtle", "nq": "N-Quads", "trig": "TriG", "jsonld": "JSON-LD"}
