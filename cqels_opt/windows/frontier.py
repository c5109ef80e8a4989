"""The frontier: every element with t <= F has been seen, so instants up to F are final (Streaming SPARQL's watermark).

Per partition F = (greatest t seen) - 1 ms - allowed lateness; over partitions and streams the minimum. A partition that has ended does
not count. A partition of a finite replay that has not begun counts with its first time, which is known. An idle stream that was released
does not count until it delivers elements again; of these, the elements at or before the frontier are late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cqels_opt.windows.admission import Admission
from cqels_opt.windows.intervals import BEFORE_TIME


@dataclass(slots=True)
class SourcePartition:
    """A source partition: ``last`` (greatest time and element seen), and for a replay its first time and number of elements."""

    stream: str
    last_time: int | None = None
    last_offset: int = -1
    first_known: int | None = None
    elements: int | None = None
    suspect: int | None = None  # the time of its last element, where that was too far ahead

    @property
    def ended(self) -> bool:
        """Whether all of a finite partition has been seen."""
        return self.elements is not None and self.last_offset + 1 >= self.elements


@dataclass(slots=True)
class Frontier:
    """The progress of a run in time. ``streams`` are those that the queries read."""

    streams: tuple[str, ...]
    lateness: int = 0
    eager: bool = False
    finite: bool = False  # all partitions are known, and end
    max_ahead: int | None = None  # ms; see Admission
    partitions: dict[int, SourcePartition] = field(default_factory=dict)
    value: int = int(BEFORE_TIME)

    def seen(self, number: int, stream: str, last_time: int | None, last_offset: int) -> None:
        """Records that a batch had elements of a partition up to this time and offset. ``last_time`` None: none of them can be read, so
        that a new partition does not count yet.
        """
        if last_time is None and number not in self.partitions:
            return
        mine = self.partitions.setdefault(number, SourcePartition(stream))
        if last_time is not None:
            mine.last_time = last_time if mine.last_time is None else max(mine.last_time, last_time)
        mine.last_offset = max(mine.last_offset, last_offset)

    def suspected(self, suspects: Mapping[int, int | None]) -> None:
        """Records for each partition of a batch the time of its last element if that was too far ahead, else None."""
        for number, time in suspects.items():
            if number in self.partitions:
                self.partitions[number].suspect = time

    @property
    def ended(self) -> bool:
        """Whether all input has been seen."""
        return self.finite and all(partition.ended for partition in self.partitions.values())

    @property
    def greatest(self) -> int | None:
        """The greatest time seen on any stream."""
        return max((p.last_time for p in self.partitions.values() if p.last_time is not None), default=None)

    def admission(self) -> Admission:
        """The rule for the next elements of each partition."""
        greatest = {number: p.last_time for number, p in self.partitions.items() if p.last_time is not None}
        suspects = {number: p.suspect for number, p in self.partitions.items() if p.suspect is not None}
        return Admission(greatest, suspects, self.lateness, self.max_ahead)

    def advance(self, idle: Collection[str | int] = ()) -> int:
        """Moves the frontier as far as the elements allow, and returns it. It never falls. ``idle``: released streams and partitions."""
        greatest = self.greatest
        if greatest is not None:
            self.value = max(self.value, greatest if self.ended else min(self._bounds(idle), default=self.value))
        return self.value

    def _bounds(self, idle: Collection[str | int]) -> Iterable[int]:
        present = {p.stream for p in self.partitions.values()}.union(idle)
        if not self.finite and any(stream not in present for stream in self.streams):
            yield int(BEFORE_TIME)
        for number, p in self.partitions.items():
            if p.ended or p.stream in idle or number in idle:
                continue
            begun = p.last_time if p.last_time is not None else p.first_known
            if begun is None:
                yield int(BEFORE_TIME)
            else:
                yield begun if self.eager and p.last_time is not None else begun - 1 - self.lateness

    def state(self) -> dict[str, Any]:
        """For the commit record."""
        return {
            "value": self.value,
            "partitions": {
                str(n): [p.stream, p.last_time, p.last_offset, p.first_known, p.elements, p.suspect]
                for n, p in self.partitions.items()
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self.value = state["value"]
        self.partitions = {int(n): SourcePartition(*fields) for n, fields in state["partitions"].items()}
