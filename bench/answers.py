"""Answers as bags, to compare contenders of different kinds: digests of files, and :class:`Bag`, by time."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from cqels_opt.verify.literals import literal_parts

Answer: TypeAlias = "tuple[int, Mapping[str, object]]"
"""The time of an answer, and the value of each bound variable: an IRI without brackets, the text of a literal."""

_MODULUS = 1 << 128


@dataclass(slots=True)
class Bag:
    """Answers, counted and digested by time, so that the answers of an unfinished run can be compared up to a time."""

    counts: dict[int, int] = field(default_factory=dict)
    digests: dict[int, int] = field(default_factory=dict)

    def add(self, answers: Iterable[Answer]) -> None:
        """Adds answers, in any order."""
        for time, values in answers:
            self.counts[time] = self.counts.get(time, 0) + 1
            self.digests[time] = (self.digests.get(time, 0) + _number(_row(time, values))) % _MODULUS

    @property
    def total(self) -> int:
        """The number of answers."""
        return sum(self.counts.values())

    def until(self, upto: int | None) -> int:
        """The number of answers up to a time (None: of all)."""
        return sum(count for time, count in self.counts.items() if upto is None or time <= upto)

    def difference(self, other: Bag, upto: int | None = None) -> str | None:
        """Describes the first time up to ``upto`` at which both differ; None if they are equal."""
        for time in sorted(self.counts.keys() | other.counts.keys()):
            if upto is not None and time > upto:
                return None
            if self.digests.get(time) != other.digests.get(time):
                mine, theirs = self.counts.get(time, 0), other.counts.get(time, 0)
                return f"at {time}: {mine} answers, and {theirs}" + (" others" if mine == theirs else "")
        return None


def value_of(term: str) -> str:
    """The value of an N-Triples term in an answer."""
    if term.startswith('"'):
        return literal_parts(term)[0]
    return term[1:-1] if term.startswith("<") else term


def answers_of_lines(lines: Iterable[str]) -> Iterator[Answer]:
    """The engine's JSON lines as answers."""
    for row in map(json.loads, lines):
        yield row["time"], {name: term["value"] for name, term in row["bindings"].items()}


def answers_of_folders(answers: Path, standing: bool) -> Iterator[Answer]:
    """The answers in the JSON files of a rival's job, one folder per micro-batch; with ``standing``, only the new ones.

    A job over NOW emits all answers of each instant with elements. ISTREAM omits the answers that the previous instant already
    had, a few rows in a million; they are removed here, so that the jobs are not charged for it.
    """
    by_time: dict[int, Counter[tuple[tuple[str, object], ...]]] = defaultdict(Counter)
    for file in sorted(answers.glob("batch=*/*.json")):
        with file.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                by_time[row.pop("time")][tuple(row.items())] += 1
    for time, found in by_time.items():
        before = by_time.get(time - 1) if standing else None
        for values in (found - before if before else found).elements():
            yield time, dict(values)


def digest_of_answers(path: Path) -> str:
    """The digest of the engine's answers in the form of rivals: the time and the value of each variable."""
    with path.open(encoding="utf-8") as lines:
        return _digest(_row(time, values) for time, values in answers_of_lines(lines))


def digest_of_lines(path: Path) -> str:
    """The digest of the engine's answers as written, for comparing runs of the engine with many answers."""
    with path.open("rb") as lines:
        return _digest(lines)


def digest_of_folders(answers: Path, standing: bool) -> tuple[int, str]:
    """The number of answers in the JSON files of a rival, see :func:`answers_of_folders`, and their digest."""
    bag = Bag()
    bag.add(answers_of_folders(answers, standing))
    return bag.total, f"{sum(bag.digests.values()) % _MODULUS:032x}"


def _row(time: int, values: Mapping[str, object]) -> bytes:
    return json.dumps([time, {name: str(value) for name, value in values.items()}], sort_keys=True).encode()


def _number(row: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(row, digest_size=16).digest())


def _digest(rows: Iterable[bytes]) -> str:
    return f"{sum(map(_number, rows)) % _MODULUS:032x}"
