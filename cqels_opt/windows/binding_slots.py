"""Binding slots: the bindings of a micro-batch's elements in the shape of a stream pattern, one file per batch, task and shape.

The rows of a slot are ordered by (time, partition, offset). A slot has no intervals: a reader computes them for its window, so windows
and queries share slots. In the step ``(F0, F1]`` of the frontier, rows are new where ``F0 < t <= F1`` and old where ``t <= F0``: only
the time of an element counts, not the batch that contained it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cqels_opt.storage.columns import Columns, read_columns

ANYTHING = -1
"""The constant of a place that has no column and matches any value: a triple term, of which only the parts are compared."""


class Inside(NamedTuple):
    """A part of a triple term in a shape: ``of`` is the place of the triple term (subject 0, predicate 1, object 2, and from 3 on the
    parts before this one), ``part`` which part of it, ``constant`` and ``place`` as those of a triple."""

    of: int
    part: int
    constant: int
    place: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The triples of a stream that a slot has: those with these constants (ids; 0: any) and repeated variables.

    ``places`` gives for subject, predicate and object the number of its binding column ``v0 …``, or -1 for a constant. With a fourth
    place, for the name of the element's graph, the slot has only elements with such a name. ``inside`` describes the parts of triple
    terms: a pattern with a quoted triple is one slot, with a binding column for each variable inside or outside the quoted triple.
    """

    stream: str
    constants: tuple[int, ...]
    places: tuple[int, ...]
    inside: tuple[Inside, ...] = ()

    @property
    def key(self) -> str:
        """A name for files and dictionaries."""
        return _key(self)

    @property
    def width(self) -> int:
        """The number of binding columns."""
        return max(*self.places, *(part.place for part in self.inside)) + 1


@lru_cache(4096)
def _key(shape: Shape) -> str:
    inside = "".join(f"-{of}{'spo'[part]}{c:x}v{p if p >= 0 else 'c'}" for of, part, c, p in shape.inside)
    places = "".join(str(p) if p >= 0 else "c" for p in shape.places)
    return "-".join(f"{c:x}" for c in shape.constants) + "-" + places + inside


@dataclass(frozen=True, slots=True)
class SlotFile:
    """A file of the state folder: a slot or its index, a time slice, the elements of a stream or their times, a page of terms, results or
    rows of a block, or elements that the frontier has not passed.
    """

    kind: str  # slot | index | segment (a time slice) | elements | times | terms | pending | result | rows
    path: str  # relative to the state folder
    stream: str = ""  # of a slot, of elements, or of the terms that they bind
    shape: str = ""  # Shape.key of a slot; program and block of a result
    rows: int = 0
    least: int = 0  # time of the first and last row; for a result the greatest start and the greatest end
    greatest: int = 0

    def as_json(self) -> dict[str, Any]:
        """For the commit record."""
        return {name: getattr(self, name) for name in self.__slots__}  # a fifth of the time of dataclasses.asdict


def read_span(folder: Path, slots: list[SlotFile], after: int, upto: int, width: int) -> Columns:
    """The rows of slots with ``after < t <= upto``, in order of time; columns ``t``, ``e``, ``task`` and ``v0 …``.

    ``e`` is the element's place in the element table of its task; ``task`` is the number of the slot file in the list.
    """
    names = ["t", "e", *(f"v{i}" for i in range(width))]
    parts: list[Columns] = []
    for number, slot in enumerate(slots):
        if slot.rows and slot.greatest > after and slot.least <= upto:
            columns = read_columns(folder / slot.path)
            first, last = np.searchsorted(columns["t"], [after, upto], "right")
            if first < last:  # rows may lie on both sides of the span
                part = {name: columns[name][first:last] for name in names}
                part["task"] = np.full(last - first, number, np.int64)
                parts.append(part)
    names.append("task")
    if len(parts) == 1:
        return parts[0]
    joined = {name: np.concatenate([p[name] for p in parts]) if parts else np.empty(0, np.int64) for name in names}
    if any(earlier["t"][-1] > later["t"][0] for earlier, later in pairwise(parts)):
        order = np.argsort(joined["t"], kind="stable")
        joined = {name: column[order] for name, column in joined.items()}
    return joined


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of a stream's elements in the order (time, partition, offset), for windows that count elements.

    ``times[r - base]`` is the time of the element of rank r; ``of[path]`` maps a place in an element table to its rank.
    """

    base: int
    times: NDArray[np.int64]
    of: dict[str, NDArray[np.int64]]

    def time_of(self, rank: NDArray[np.int64], unknown: int) -> NDArray[np.int64]:
        """The time of each rank; ``unknown`` for ranks that have not been reached."""
        place = rank - self.base
        known = (place >= 0) & (place < len(self.times))
        return np.where(
            known, self.times[np.clip(place, 0, max(0, len(self.times) - 1))] if len(self.times) else unknown, unknown
        )


def rank_elements(folder: Path, tables: list[SlotFile], base: int, upto: int) -> Ranks:
    """The ranks of the elements with ``t <= upto``; ``base`` elements precede those of the remaining tables.

    An element of several triples has one rank, also where several tasks of a batch have rows of it, each in its own table.
    """
    parts = [read_columns(folder / table.path) for table in tables]
    lengths = [len(p["t"]) for p in parts]
    joined = {n: np.concatenate([p[n] for p in parts]) if parts else np.empty(0, np.int64) for n in ("t", "partition", "offset")}
    order = np.lexsort((joined["offset"], joined["partition"], joined["t"]))
    begins = np.zeros(len(order), bool)
    begins[:1] = True
    for column in joined.values():
        begins[1:] |= column[order][1:] != column[order][:-1]
    rank = np.empty(len(order), np.int64)
    rank[order] = base - 1 + np.cumsum(begins)
    times = joined["t"][order][begins]
    of, at = {}, 0
    for table, length in zip(tables, lengths):
        of[table.path] = rank[at : at + length]
        at += length
    return Ranks(base, times[: np.searchsorted(times, upto, "right")], of)
