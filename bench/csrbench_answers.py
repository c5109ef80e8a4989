"""The answers of C-SPARQL, SPARQLstream and CQELS to CSRBench, as recorded by its oracle, compared with ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.query.values import is_number, value
from cqels_opt.verify import Answers

Cells = frozenset[tuple[str, str]]
Bag = Counter[Cells]
SECOND = 1000
MOVED = range(-3, 4)
"""The clock offsets in seconds to try."""
_DIGITS = 6


NOTES = {
    ("csparql", 3): "the row that is lost at one closing is put out at the next: it was given to the wrong window",
    ("csparql", 4): "0 is SPARQL's average of nothing",
    ("csparql", 5): "rows are lost: the window that closes holds them",
    ("sparqlstream", 1): "its closings lie 10 s and 9 s apart, so that no t0 gives them all",
    ("sparqlstream", 4): "it has no value where SPARQL's average of nothing is 0, and goes on when its windows are empty",
    ("cqels", 4): (
        "it answers only when a reading over 80 comes, and one of 4 s ago is then still in its window: its clock is late"
    ),
    ("cqels", 6): "the others pair observations that are 6 s to 31 s apart: one of its two windows loses nothing",
    ("cqels", 7): "each of the 957 temperatures comes once, whatever it is: nothing is compared",
}
"""Explanations of the differences; tests check them."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One engine's recorded answer to one query: the number of parts that equal ours, also with a clock offset.

    ``missing`` and ``extra`` count the rows of the whole run, at any instant, that only we or only the engine has. ``correct``:
    for some t0 our answer equals the engine's, possibly with an offset (Definition 25).
    """

    query: int
    engine: str
    answers: int
    rows: int
    equal: int
    moved: int | None
    equal_moved: int
    missing: int
    extra: int
    correct: bool
    why: str


def recorded(folder: Path, engine: str, number: int) -> list[tuple[int, Bag]]:
    """The answers of an engine: (milliseconds, rows) in order."""
    found = json.loads((folder / "answers" / f"{engine}-answer-{number}.json").read_text(encoding="utf-8"))
    return [(r["timestamp"], Counter(_cells(b["binding"]) for b in r["results"]["bindings"])) for r in found["relations"]]


def _cells(binding: Mapping[str, Mapping[str, str]]) -> Cells:
    return frozenset((name, plain(cell["value"])) for name, cell in binding.items() if cell["value"] != "null")


def plain(text: str) -> str:
    """A number rounded to six digits: engines write ``90.`` and ``90.0``."""
    try:
        return f"{float(text):.{_DIGITS}f}"
    except ValueError:
        return text


def ours(answers: Answers) -> Bag:
    """Our rows in the form of the records."""
    found: Bag = Counter()
    for (_, _, row), count in answers.items():
        found[frozenset((name, _text(term)) for name, term in row)] += count
    return found


def by_time(answers: Answers) -> dict[int, Answers]:
    """The answers of each instant."""
    found: dict[int, Answers] = {}
    for (time, op, row), count in answers.items():
        found.setdefault(time, Counter())[time, op, row] = count
    return found


def _text(term: str) -> str:
    if term.startswith("<"):
        return term[1:-1]
    found = value(term)
    return plain(str(found)) if is_number(found) else term.strip('"')


# ------------------------------------------------------------------ windows
def compare_windows(
    engine: str, number: int, found: list[tuple[int, Bag]], windows: Mapping[int, Answers], slide: int
) -> Compared:
    """The recorded windows of an engine that reports at closings, compared with our windows by closing (of all t0)."""
    bags = {closing: ours(answers) for closing, answers in windows.items()}

    def equal(seconds: int) -> int:
        return sum(bag == bags.get(at + seconds * SECOND, Counter()) for at, bag in found)

    best = max(MOVED, key=lambda seconds: (equal(seconds), -abs(seconds)))
    moved = [(at + best * SECOND, bag) for at, bag in found]
    engine_rows = Counter(row for _, bag in found for row in bag.elements())
    our_rows = Counter(row for at, _ in moved for row in bags.get(at, Counter()).elements())
    first, last = moved[0][0], moved[-1][0]
    # with the t0 of the first closing, every answer is ours, and none of ours is missing between
    reported = {at for at, _ in moved}
    complete = all(at in reported for at in range(first, last, slide) if bags.get(at))
    correct = equal(best) == len(found) and complete and len({at % slide for at in reported}) == 1
    reasons = [f"its clock is {abs(best)} s {'behind' if best > 0 else 'ahead of'} the stream's"] if best else []
    reasons += [_wrong(at - best * SECOND, bag, at, bags) for at, bag in moved if bag != bags.get(at, Counter())]
    return Compared(
        number,
        engine,
        len(found),
        engine_rows.total(),
        equal(0),
        best or None,
        equal(best),
        (our_rows - engine_rows).total(),
        (engine_rows - our_rows).total(),
        correct,
        _why(engine, number, reasons),
    )


def _wrong(at: int, engine_rows: Bag, place: int, bags: Mapping[int, Bag]) -> str:
    """Describes a wrong answer: it belongs to another window, or has missing or extra rows."""
    after = place + SECOND
    if engine_rows and engine_rows == bags.get(after):
        return f"at {at // SECOND} s it has the rows of {after // SECOND} s"
    our_rows = bags.get(place, Counter())
    lacks, has = (our_rows - engine_rows).total(), (engine_rows - our_rows).total()
    return f"at {at // SECOND} s it " + " and ".join(
        f"{text} {n}" for text, n in (("lacks", lacks), ("has too many by", has)) if n
    )


def _why(engine: str, number: int, reasons: list[str]) -> str:
    return "; ".join([*reasons, *([NOTES[engine, number]] if (engine, number) in NOTES else [])]) or "the same"


# ------------------------------------------------------------------ content changes
def compare_cqels(number: int, found: list[tuple[int, Bag]], answers: Answers) -> Compared:
    """CQELS's insertions, with wall-clock instants, compared with ours: file k was sent k seconds after the start."""
    engine_rows = Counter(((at // SECOND) * SECOND, row) for at, bag in found for row in bag.elements())
    our_rows: Counter[tuple[int, Cells]] = Counter()
    for (time, op, row), count in answers.items():
        our_rows[time, next(iter(ours(Counter({(time, op, row): 1}))))] += count
    missing, extra, same = (our_rows - engine_rows).total(), (engine_rows - our_rows).total(), (engine_rows & our_rows).total()
    problems = [f"{n} {text}" for n, text in ((missing, "of our rows are missing"), (extra, "rows are not ours")) if n]
    reasons = [" and ".join(problems)] if problems else []
    correct = not missing and not extra
    return Compared(
        number,
        "cqels",
        len(found),
        engine_rows.total(),
        same,
        None,
        same,
        missing,
        extra,
        correct,
        _why("cqels", number, reasons),
    )
