"""Compares answers: missing and extra rows per instant.

A computed number can be written in several ways, so numeric literals are compared by value (decimals by 15 significant digits; doubles
and parameters of distributions finally within 1e-9) and datatype. Blank nodes are distinguished within a row only. The parts of a
GROUP_CONCAT are compared in any order, and every other term exactly.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from cqels_opt.errors import DataError
from cqels_opt.verify.forms import BOOLEAN, TRIPLE
from cqels_opt.verify.isomorphic import isomorphic
from cqels_opt.verify.literals import literal, literal_parts
from cqels_opt.verify.model import Answers, Row, Triple

_XSD = "http://www.w3.org/2001/XMLSchema#"
_WHOLE = frozenset(
    (
        *("integer", "long", "int", "short", "byte", "positiveInteger", "negativeInteger", "nonPositiveInteger"),
        *("nonNegativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    )
)
_FLOATING = frozenset(("double", "float"))
_DIGITS = Context(prec=15)
_IN_TRIPLE = re.compile(r'_:[\w.-]+|"(?:[^"\\]|\\.)*"(?:\^\^<[^>]*>|@[\w-]+)?')
_DISTRIBUTION = "http://w3id.org/rsp/rspu#distribution"
_NUMBERS = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences at one instant: rows with their counts, expected but absent, and present but not expected."""

    time: int
    missing: tuple[tuple[str, Row, int], ...]
    extra: tuple[tuple[str, Row, int], ...]


def compare(expected: Answers, got: Answers, concatenations: Mapping[str, str] | None = None) -> list[Difference]:
    """The instants at which the answers differ, in time order; empty if they are equal.

    ``concatenations`` maps the variables computed by a GROUP_CONCAT to their separators.
    """
    want, have = _comparable(expected, concatenations or {}), _comparable(got, concatenations or {})
    for at in _not_isomorphic(expected, got) if want == have else ():
        want += Counter({key: count for key, count in expected.items() if key[0] == at})
        have += Counter({key: count for key, count in got.items() if key[0] == at})
    lacking, surplus = want - have, have - want
    _drop_rounding_differences(lacking, surplus)
    missing, extra = _by_time(lacking), _by_time(surplus)
    return [Difference(at, tuple(missing[at]), tuple(extra[at])) for at in sorted(missing.keys() | extra.keys())]


def _not_isomorphic(expected: Answers, got: Answers) -> Iterator[int]:
    """The instants whose graphs are equal triple by triple, but not under one renaming of blank nodes."""
    graphs: dict[tuple[int, str], tuple[list[Triple], list[Triple]]] = {}
    for side, answers in enumerate((expected, got)):
        for time, op, row in answers:
            cells = dict(row)
            if cells.keys() == set(TRIPLE):
                s, p, o = (t if (t := cells[name]).startswith("_:") else comparable(t) for name in TRIPLE)
                graphs.setdefault((time, op), ([], []))[side].append((s, p, o))
    for (time, _), (one, other) in graphs.items():
        if any(term.startswith("_:") for triple in one for term in triple) and not isomorphic(one, other):
            yield time


def report(differences: Iterable[Difference], limit: int = 10) -> str:
    """A text for people: the first ``limit`` instants that differ, each with its first rows; empty without differences."""
    found = list(differences)
    lines: list[str] = []
    for difference in found[:limit]:
        lines.append(f"at {difference.time}:")
        for word, rows in (("missing", difference.missing), ("extra", difference.extra)):
            for op, row, count in rows[:limit]:
                times = f" × {count}" if count > 1 else ""
                lines.append(f"  {word} {op} {row_text(row)}{times}")
            if len(rows) > limit:
                lines.append(f"  {word}: {len(rows) - limit} rows more")
    if len(found) > limit:
        lines.append(f"and {len(found) - limit} instants more")
    return "\n".join(lines)


def read_answers(path: Path, query: str | None = None) -> Answers:
    """The answers in a file (format: INTERFACE): one JSON object per line, in time order.

    ``query`` selects the answers of one query, if the lines name their query.
    """
    answers: Answers = Counter()
    last = None
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                rows = list(_rows(record)) if query is None or record.get("query") == query else []
                time, op = record["time"], record["op"]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DataError(f"{path}:{number}: not an answer: {error}") from error
            if last is not None and time < last:
                raise DataError(f"{path}:{number}: time {time} comes after {last}")
            answers.update((time, op, row) for row in rows)
            last = time
    return answers


def _rows(record: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of an answer: one of bindings, a truth value, or those of a graph's triples."""
    if "triples" in record:
        yield from (frozenset(zip(TRIPLE, (s, p, o))) for s, p, o in record["triples"])
    elif "boolean" in record:
        yield frozenset([(BOOLEAN, literal(str(record["boolean"]).lower(), f"{_XSD}boolean", None))])
    else:
        yield frozenset((name, _term(binding)) for name, binding in record["bindings"].items())


def _term(binding: Mapping[str, Any]) -> str:
    """The canonical text of a term in SPARQL 1.1 JSON."""
    kind, value = binding["type"], binding["value"]
    if kind == "uri":
        return f"<{value}>"
    if kind == "bnode":
        return f"_:{value}"
    if kind == "triple":
        s, p, o = (_term(value[part]) for part in ("subject", "predicate", "object"))
        return f"<<( {s} {p} {o} )>>"
    if kind in ("literal", "typed-literal"):
        direction = f"--{binding['its:dir']}" if "its:dir" in binding else ""
        return literal(value, binding.get("datatype"), binding.get("xml:lang") and f"{binding['xml:lang']}{direction}")
    raise ValueError(f"unknown type of term {kind!r}")


def comparable(term: str) -> str:
    """The normal form of a term: terms of equal answers have equal normal forms."""
    if term.startswith("_:"):
        return "_:"
    if term.startswith("<<("):
        return _IN_TRIPLE.sub(lambda part: comparable(part[0]), term)
    if not term.startswith('"'):
        return term
    value, datatype, _ = literal_parts(term)
    kind = (datatype or "").removeprefix(_XSD)
    try:
        if kind in _WHOLE:
            return literal(str(int(value.strip())), datatype, None)
        if kind == "decimal":
            number = _DIGITS.plus(Decimal(value.strip())).normalize(_DIGITS)
            return literal(f"{number + 0:f}" if number else "0", datatype, None)
        if kind in _FLOATING:
            number_text = repr(float(f"{float(value):.{14 if kind == 'double' else 6}g}"))
            return literal(number_text, datatype, None)
    except (InvalidOperation, ValueError):
        return term
    return term


def _comparable(answers: Answers, concatenations: Mapping[str, str]) -> Answers:
    known: dict[str, str] = {}
    found: Answers = Counter()
    for (time, op, row), count in answers.items():
        for _, term in row:
            if term not in known:
                known[term] = comparable(term)
        cells = {n: _in_order(t, concatenations[n]) if n in concatenations else known[t] for n, t in row}
        blank = sorted((n, t) for n, t in row if t.startswith("_:")) if len(row) > 1 else []
        if len(blank) > 1:
            order = list(dict.fromkeys(label for _, label in blank))
            cells |= {n: f"_:{order.index(label)}" for n, label in blank}
        found[time, op, frozenset(cells.items())] += count
    return found


def _drop_rounding_differences(missing: Answers, extra: Answers) -> None:
    """Removes from both sides rows that differ only in the last digits of doubles, which depend on the order of computation."""
    by_instant: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for time, op, row in extra:
        by_instant[time, op].append(row)
    for time, op, row in list(missing):
        for other in by_instant.get((time, op), ()):
            shared = min(missing[time, op, row], extra[time, op, other])
            if shared > 0 and _close_rows(dict(row), dict(other)):
                for side, changed in ((missing, row), (extra, other)):
                    side[time, op, changed] -= shared
    for side in (missing, extra):
        for key in [key for key, count in side.items() if count <= 0]:
            del side[key]


def _close_rows(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return one.keys() == other.keys() and all(term == other[name] or _close(term, other[name]) for name, term in one.items())


def _close(one: str, other: str) -> bool:
    """Whether two terms are doubles, or distributions of one family, whose numbers are equal except for the last few digits."""
    if not (one.startswith('"') and other.startswith('"')):
        return False
    (text, datatype, _), (again, same, _) = literal_parts(one), literal_parts(other)
    if datatype != same or datatype not in (f"{_XSD}double", _DISTRIBUTION):
        return False
    numbers, others = (_NUMBERS.findall(part) for part in (text, again))
    near = (math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(numbers, others))
    return len(numbers) == len(others) and _NUMBERS.sub("", text) == _NUMBERS.sub("", again) and all(near)


def _in_order(term: str, separator: str) -> str:
    """A concatenation with sorted parts."""
    if not term.startswith('"'):
        return term
    value, datatype, language = literal_parts(term)
    return literal(separator.join(sorted(value.split(separator) if separator else value)), datatype, language)


def _by_time(answers: Answers) -> dict[int, list[tuple[str, Row, int]]]:
    found: dict[int, list[tuple[str, Row, int]]] = defaultdict(list)
    for time, op, row in sorted(answers, key=lambda k: (k[0], k[1], sorted(k[2]))):
        found[time].append((op, row, answers[time, op, row]))
    return found


def row_text(row: Row) -> str:
    """A row for people: a triple, a truth value, or bindings."""
    cells = dict(row)
    if cells.keys() == set(TRIPLE):
        return " ".join(cells[name] for name in TRIPLE)
    if BOOLEAN in cells:
        return str(cells[BOOLEAN])
    return " ".join(f"?{name}={term}" for name, term in sorted(row)) or "(no bindings)"
