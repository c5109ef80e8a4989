"""Maps columns to triples: reads a mapping file and applies it to records (of JSON, CSV or a DataFrame).

The vocabulary is that of R2RML and RML, written in TOML: a triples map has a subject, an optional graph and classes, and
properties. Each is a constant, a column, or a template with columns in braces (R2RML §6 and §7.3). docs/sources-and-sinks.md
describes the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from cqels_opt.errors import InputError
from cqels_opt.rdf import terms

Record: TypeAlias = Mapping[str, Any]
Triple: TypeAlias = "tuple[str, str, str, str | None]"  # s, p, o and graph
Make: TypeAlias = Callable[[Sequence[Any]], str]

UNITS = {"s": 3, "ms": 0, "us": -3, "ns": -6}  # powers of ten relative to milliseconds
_KNOWN_LIMIT = 100_000
_DIGITS = 30  # maximum digits of a time; 2**53 ms in nanoseconds has 22
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LANGUAGE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")
_LABEL = re.compile(r"[^A-Za-z0-9]")
_TEMPLATE = re.compile(r"\\([\\{}])|\{([^{}]*)\}|([{}\\])")
_UNSAFE = re.compile(
    "[^A-Za-z0-9._~\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U000efffd-]"
)  # R2RML §7.3: iunreserved stays


class Number(str):
    """A non-integer JSON number as its original text, so that the literal keeps all digits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TermMap:
    """Builds a term from the values of ``columns`` with ``make``, which raises ``ValueError`` if they do not form a term.

    A record without one of the columns has no such term (R2RML §11.1: NULL).
    """

    columns: tuple[str, ...]
    make: Make
    _known: dict[Any, str] = field(default_factory=dict, compare=False, repr=False)  # values repeat between records

    def of(self, record: Record) -> str | None:
        """The term of a record."""
        values = [value_at(record, column) for column in self.columns]
        if None in values:
            return None
        key = tuple([(value.__class__, value) for value in values])  # 1, True and "1" are different literals
        try:
            found = self._known.get(key)
        except TypeError:  # unhashable: a list or an object, which make rejects
            return self.make(values)
        if found is None:
            found = self.make(values)
            if len(self._known) >= _KNOWN_LIMIT:
                self._known.clear()
            self._known[key] = found
        return found


@dataclass(frozen=True, slots=True)
class TriplesMap:
    """A subject with its predicates and objects."""

    subject: TermMap
    properties: tuple[tuple[str, TermMap], ...]
    graph: TermMap | None = None


@dataclass(frozen=True, slots=True)
class RecordMapping:
    """A parsed mapping file. ``columns``: those of CSV messages, which have no header; ``iterator``: the path to JSON records."""

    maps: tuple[TriplesMap, ...]
    format: Literal["json", "csv"] = "json"
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    iterator: str = ""
    time: str | None = None
    unit: str = "ms"

    def triples(self, record: Record) -> list[Triple]:
        """The triples of a record; ``ValueError`` gives the reason if there are none."""
        found: list[Triple] = []
        for each in self.maps:
            subject = each.subject.of(record)
            if subject is None:
                continue
            graph = each.graph.of(record) if each.graph else None
            found += [(subject, p, o, graph) for p, of in each.properties if (o := of.of(record)) is not None]
        if not found:
            raise ValueError(f"gives no triple: it lacks {', '.join(self._lacking(record)) or 'what the mapping reads'}")
        return found

    def _lacking(self, record: Record) -> Iterator[str]:
        read = dict.fromkeys(column for each in self.maps for column in each.subject.columns)
        read |= dict.fromkeys(column for each in self.maps for _, of in each.properties for column in of.columns)
        return (column for column in read if value_at(record, column) is None)

    def time_of(self, record: Record) -> str | None:
        """The record's time as text, in whole milliseconds if it is a number; None without a time."""
        value = value_at(record, self.time) if self.time else None
        if value is None:
            return None
        text = _lexical(self.time or "", value)
        if self.unit != "ms" or isinstance(value, Number):
            try:
                ticks = Decimal(text)
                if ticks.adjusted() > _DIGITS:  # the integer of 1e999999999 has that many digits
                    return text
                return str(int(ticks.scaleb(UNITS[self.unit]).to_integral_value("ROUND_FLOOR")))
            except (ArithmeticError, ValueError):
                return text  # an ISO 8601 time, or invalid: the time parser rejects it
        return text


def value_at(record: Record, column: str) -> Any:
    """The value of a column; ``a.b`` is the column ``b`` of the object ``a``, unless a column has exactly that name."""
    if column in record:
        return record[column]
    found: Any = record
    for name in column.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


# ------------------------------------------------------------------ values to terms
def _lexical(column: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise ValueError(f"column {column} is {'a list' if isinstance(value, list) else 'an object'}, not a value")


def _natural(value: Any) -> str:
    """The natural datatype of a value (R2RML §10.2)."""
    if isinstance(value, bool):
        return terms.XSD_BOOLEAN
    return terms.XSD_INTEGER if isinstance(value, int) else terms.XSD_DOUBLE if isinstance(value, Number) else terms.XSD_STRING


def _literal_of(column: str, datatype: str | None, language: str | None) -> Make:
    def make(values: Sequence[Any]) -> str:
        text = _lexical(column, values[0])
        return _checked(terms.literal(text, datatype or _natural(values[0]), language), column)

    return make


def _iri_of(column: str) -> Make:
    def make(values: Sequence[Any]) -> str:
        text = _lexical(column, values[0])
        if not _ABSOLUTE.match(text):
            raise ValueError(f"column {column} is {text[:80]!r}, no absolute IRI")
        return _checked(f"<{text}>", column)

    return make


def _checked(term: str, column: str) -> str:
    """The canonical text of a term; rejects surrogates and characters that no IRI can have."""
    try:
        return terms.canonical(term)
    except terms.TermError as error:
        raise ValueError(f"column {column}: {error}") from error


def _from_template(parts: Sequence[str], columns: Sequence[str], kind: terms.TermKind, as_literal: Callable[[str], str]) -> Make:
    """``parts`` are the texts before, between and after the columns. Values are made safe for an IRI or a blank-node label."""

    def make(values: Sequence[Any]) -> str:
        texts = [_lexical(column, value) for column, value in zip(columns, values)]
        if kind == "iri":
            texts = [_UNSAFE.sub(lambda found: _percent(found[0]), text) for text in texts]
        elif kind == "blank":
            texts = [_LABEL.sub(lambda found: f"_{ord(found[0]):x}_", text) for text in texts]
        whole = parts[0] + "".join(text + part for text, part in zip(texts, parts[1:]))
        if kind == "literal":
            return _checked(as_literal(whole), ", ".join(columns))
        return _checked(f"<{whole}>" if kind == "iri" else f"_:{whole}", ", ".join(columns))

    return make


def _percent(character: str) -> str:
    try:
        return quote(character, safe="")
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair is no character") from error


# ------------------------------------------------------------------ the file
@dataclass(slots=True)
class _Reader:
    """Reads the tables of a mapping file; each error names the file and the position in it."""

    name: str
    prefixes: dict[str, str] = field(default_factory=lambda: {"xsd": terms.XSD})

    def wrong(self, place: str, what: str) -> InputError:
        return InputError(f"{self.name}: {place}: {what}" if place else f"{self.name}: {what}")

    def only(self, place: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                raise self.wrong(place, f"{key!r} is not known here; known are {', '.join(known)}")

    def text(self, place: str, table: Mapping[str, Any], key: str) -> str | None:
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(place, f"{key} is {value!r}, not text")
        return value

    def expanded(self, text: str) -> str:
        """A prefixed name expanded to its IRI; other text unchanged."""
        prefix, colon, rest = text.partition(":")
        return self.prefixes[prefix] + rest if colon and prefix in self.prefixes else text

    def iri(self, place: str, text: str) -> str:
        whole = self.expanded(text[1:-1] if text.startswith("<") and text.endswith(">") else text)
        try:
            if not _ABSOLUTE.match(whole):
                raise terms.TermError("")
            return terms.iri(whole)
        except terms.TermError:
            raise self.wrong(place, f"{text!r} is no IRI: write it out, or declare its prefix under [prefixes]") from None

    def template(self, place: str, text: str) -> tuple[list[str], list[str]]:
        """The texts around the columns, and the columns."""
        parts, columns, at = [""], list[str](), 0
        for found in _TEMPLATE.finditer(text):
            parts[-1] += text[at : found.start()]
            at = found.end()
            if found[1]:
                parts[-1] += found[1]
            elif found[2]:
                columns.append(found[2])
                parts.append("")
            else:
                raise self.wrong(place, f"the template {text!r} is wrong at {found[0]!r}: write {{column}}, or \\{{ for a brace")
        parts[-1] += text[at:]
        return parts, columns

    def term(self, place: str, given: Any, otherwise: terms.TermKind, may: Sequence[terms.TermKind]) -> TermMap:
        """The term map of a table; text without a table is a template of an IRI."""
        table = {"template": given} if isinstance(given, str) else given
        if not isinstance(table, dict):
            raise self.wrong(place, f"{given!r} is no term: write text, or a table with column, template, iri or value")
        self.only(place, table, ("column", "template", "iri", "value", "type", "datatype", "language"))
        kinds = [key for key in ("column", "template", "iri", "value") if key in table]
        if len(kinds) != 1:
            raise self.wrong(place, f"a term has one of column, template, iri and value, not {' and '.join(kinds) or 'none'}")
        (source,) = kinds
        default: terms.TermKind = "iri" if source in ("iri", "template") else "literal" if source == "value" else otherwise
        kind: Any = self.text(place, table, "type") or ("literal" if {"datatype", "language"} & table.keys() else default)
        if kind not in may:
            raise self.wrong(place, f"type {kind!r} cannot stand here; it must be {' or '.join(may)}")
        datatype, language = self.text(place, table, "datatype"), self.text(place, table, "language")
        if (datatype or language) and (kind != "literal" or (datatype and language)):
            raise self.wrong(place, "a datatype or a language (one of them) is for a literal")
        if language is not None and not _LANGUAGE.fullmatch(language):
            raise self.wrong(place, f"{language!r} is no language tag")
        typed = self.iri(place, datatype)[1:-1] if datatype else None
        if source == "value":
            value = Number(table["value"]) if isinstance(table["value"], float) else table["value"]
            return self.constant(place, _literal_of("value", typed, language), value)
        text = self.text(place, table, source) or ""
        if source == "iri":
            term = self.iri(place, text)
            return TermMap((), lambda _: term)
        if source == "column":
            if kind == "blank":
                return TermMap((text,), _from_template(["", ""], [text], kind, terms.literal))
            return TermMap((text,), _iri_of(text) if kind == "iri" else _literal_of(text, typed, language))
        parts, columns = self.template(place, text if kind != "iri" else self.expanded(text))
        if kind == "iri" and not _ABSOLUTE.match(parts[0]):
            raise self.wrong(
                place,
                f"the template {text!r} begins with no scheme or declared prefix; a column of IRIs is {{ column, type = 'iri' }}",
            )
        return TermMap(
            tuple(columns), _from_template(parts, columns, kind, lambda t: terms.literal(t, typed or terms.XSD_STRING, language))
        )

    def constant(self, place: str, make: Make, value: Any) -> TermMap:
        try:
            term = make([value])
        except ValueError as error:
            raise self.wrong(place, str(error)) from error
        return TermMap((), lambda _: term)

    def triples_map(self, place: str, table: Any) -> TriplesMap:
        if not isinstance(table, dict):
            raise self.wrong(place, "it is no table: write [[triples]]")
        self.only(place, table, ("subject", "graph", "class", "properties"))
        if "subject" not in table:
            raise self.wrong(place, "it has no subject")
        nodes: tuple[terms.TermKind, ...] = ("iri", "blank")
        properties: list[tuple[str, TermMap]] = []
        classes = table.get("class", [])
        if not isinstance(classes, str | list):
            raise self.wrong(place, "class is an IRI, or a list of IRIs")
        for name in [classes] if isinstance(classes, str) else classes:
            properties.append((f"<{terms.RDF_TYPE}>", self.term(f"{place} class", {"iri": name}, "iri", ("iri",))))
        given = table.get("properties", {})
        if not isinstance(given, dict):
            raise self.wrong(place, "properties are a table: [triples.properties]")
        for name, objects in given.items():
            where = f"{place} property {name}"
            for each in objects if isinstance(objects, list) else [objects]:
                properties.append((self.iri(where, name), self.term(where, each, "literal", ("iri", "blank", "literal"))))
        if not properties:
            raise self.wrong(place, "it has neither properties nor a class")
        graph = self.term(f"{place} graph", table["graph"], "iri", ("iri",)) if "graph" in table else None
        return TriplesMap(self.term(f"{place} subject", table["subject"], "iri", nodes), tuple(properties), graph)


_KNOWN = ("format", "columns", "delimiter", "iterator", "time", "time_unit", "prefixes", "triples")


def read_mapping(path: Path) -> RecordMapping:
    """The mapping in a file; ``InputError`` names the file and the position of an error."""
    try:
        return mapping_of(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error


def mapping_of(text: str, name: str = "mapping") -> RecordMapping:
    """The mapping in a TOML text."""
    reader = _Reader(name)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise reader.wrong("", f"is not TOML: {error}") from error
    reader.only("", table, _KNOWN)
    prefixes = table.get("prefixes", {})
    if not isinstance(prefixes, dict) or not all(isinstance(value, str) for value in prefixes.values()):
        raise reader.wrong("prefixes", "they are a table of texts")
    reader.prefixes |= prefixes
    format: Any = reader.text("", table, "format") or "json"
    unit = reader.text("", table, "time_unit") or "ms"
    if format not in ("json", "csv"):
        raise reader.wrong("format", f"{format!r} is not known; known are json and csv")
    if unit not in UNITS:
        raise reader.wrong("time_unit", f"{unit!r} is not known; known are {', '.join(UNITS)}")
    columns = table.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise reader.wrong("columns", "they are a list of names")
    if bool(columns) != (format == "csv"):
        raise reader.wrong("columns", "messages of CSV have them, and no others: they have no header")
    delimiter = reader.text("", table, "delimiter") or ","
    if len(delimiter) != 1:
        raise reader.wrong("delimiter", f"{delimiter!r} is not one character")
    maps = table.get("triples", [])
    if not isinstance(maps, list) or not maps:
        raise reader.wrong("", "it has no [[triples]]")
    found = tuple(reader.triples_map(f"triples {number}", each) for number, each in enumerate(maps, 1))
    mapping = RecordMapping(
        found, format, tuple(columns), delimiter, reader.text("", table, "iterator") or "", reader.text("", table, "time"), unit
    )
    if columns:
        _check_columns(reader, mapping)
    return mapping


def _check_columns(reader: _Reader, mapping: RecordMapping) -> None:
    read = {mapping.time} if mapping.time else set()
    for each in mapping.maps:
        read |= {*each.subject.columns, *(each.graph.columns if each.graph else ())}
        read |= {column for _, of in each.properties for column in of.columns}
    if unknown := sorted(read - set(mapping.columns)):
        raise reader.wrong("columns", f"{', '.join(unknown)} is read, and not among them")
