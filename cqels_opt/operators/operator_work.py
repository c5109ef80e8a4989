"""What operators cost in a batch: time, rows and bytes. A task measures itself all the time, with one clock reading per piece of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

from cqels_opt.operators.rows import Rows

WORD = 8
"""Bytes of an id, a time or a multiplicity."""


@dataclass(slots=True)
class OperatorWork:
    """The work of an operator: its own seconds, without those of its inputs, and the rows and bytes that it has given.

    ``tasks`` in which it ran; ``most`` is the largest number of rows of one of them, once tasks have been added up. ``candidates`` of a
    multiway join are the rows of an index that it verified. ``spared`` are the rows that it would have given without semi-join
    reduction, less those that it gave; ``looked_up`` the rows of later relations that were read to reduce its input.
    """

    seconds: float = 0.0
    rows: int = 0
    nbytes: int = 0
    tasks: int = 0
    most: int = 0
    candidates: int = 0
    spared: int = 0
    looked_up: int = 0

    def propose(self, candidates: int) -> None:
        """Counts candidates of a multiway join."""
        self.candidates += candidates

    def give(self, rows: Rows) -> None:
        """Counts a piece of rows and its bytes."""
        self.rows += len(rows)
        self.nbytes += WORD * len(rows) * (len(rows.columns) + 3)

    def add(self, other: OperatorWork) -> None:
        """Adds the work of another task."""
        self.most = max(self.most or self.rows, other.most or other.rows)
        self.seconds += other.seconds
        self.rows += other.rows
        self.nbytes += other.nbytes
        self.tasks += other.tasks
        self.candidates += other.candidates
        self.spared += other.spared
        self.looked_up += other.looked_up

    @property
    def skew(self) -> float | None:
        """The rows of the task that has most of them, over the mean of all tasks; None for one task, or without rows."""
        return self.most * self.tasks / self.rows if self.tasks > 1 and self.rows else None

    @property
    def ms(self) -> float:
        """Milliseconds of all tasks together, for records."""
        return round(1000 * self.seconds, 3)


class WorkMeter:
    """Adds the elapsed time to the operator that runs. Operators are generators: each says when it begins to run again."""

    __slots__ = ("_current", "_since")

    def __init__(self) -> None:
        self._current: OperatorWork | None = None
        self._since = 0.0

    def switch(self, to: OperatorWork | None) -> OperatorWork | None:
        """From now on an operator runs, or none of those that are measured; returns the one that ran."""
        now, before = perf_counter(), self._current
        if before is not None:
            before.seconds += now - self._since
        self._current, self._since = to, now
        return before


@dataclass(frozen=True, slots=True)
class TreeWork:
    """The work of a tree of operators above the joins: that of each, by the identity of its object, and of what runs besides them."""

    operators: dict[int, OperatorWork]
    rest: OperatorWork = field(default_factory=OperatorWork)
    meter: WorkMeter = field(default_factory=WorkMeter)

    @contextmanager
    def running(self, operator: object) -> Iterator[OperatorWork | None]:
        """The operator runs in the block, and then again the one before. One that is not of the tree is part of the one that uses it."""
        if (work := self.operators.get(id(operator))) is None:
            yield None
            return
        work.tasks = 1
        before = self.meter.switch(work)
        try:
            yield work
        finally:
            self.meter.switch(before)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """What runs in the block and is no operator is the rest."""
        self.rest.tasks = 1
        self.meter.switch(self.rest)
        try:
            yield
        finally:
            self.meter.switch(None)


def added(mine: list[OperatorWork], other: list[OperatorWork]) -> list[OperatorWork]:
    """The work of the same operators in further tasks, added to that of ``mine``, which may be empty."""
    if not mine:
        return [replace(work) for work in other]
    for work, more in zip(mine, other, strict=True):
        work.add(more)
    return mine
