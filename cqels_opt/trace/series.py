"""Series for charts with bounded size, however many batches a trace has.

Above a number of records, several share a *point*: when all points are used, neighbours are merged, and each point takes twice as
many records from then on. A point keeps the minimum, the maximum and the mean, so no peak is lost. One pass with bounded memory:
running jobs and files are charted in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

MOST_POINTS = 1000
Numbers: TypeAlias = list[float | None]


class Series:
    """The values of one quantity, by point; a point without a value is a gap."""

    __slots__ = ("_counts", "_greatest", "_least", "_sums")

    def __init__(self) -> None:
        self._least: list[float] = []
        self._greatest: list[float] = []
        self._sums: list[float] = []
        self._counts: list[int] = []

    def put(self, point: int, value: float | None) -> None:
        """Adds a value; None (unknown) is ignored."""
        if value is None:
            return
        counts = self._counts
        if (missing := point + 1 - len(counts)) > 0:
            self._least += [value] * missing
            self._greatest += [value] * missing
            self._sums += [0.0] * missing
            counts += [0] * missing
        if not counts[point] or value < self._least[point]:
            self._least[point] = value
        if not counts[point] or value > self._greatest[point]:
            self._greatest[point] = value
        self._sums[point] += value
        counts[point] += 1

    def merged(self, points: int) -> Series:
        """The series with ``points`` neighbouring points merged into one."""
        other = Series()
        for start in range(0, len(self._counts), points):
            span = [point for point in range(start, min(start + points, len(self._counts))) if self._counts[point]]
            other._least.append(min((self._least[point] for point in span), default=0.0))
            other._greatest.append(max((self._greatest[point] for point in span), default=0.0))
            other._sums.append(sum(self._sums[point] for point in span))
            other._counts.append(sum(self._counts[point] for point in span))
        return other

    def to_json(self, length: int) -> dict[str, Numbers]:
        """The ``mean`` of each point, null without values; ``least`` and ``greatest`` too if values share points."""
        known = [*self._counts, *[0] * (length - len(self._counts))]
        found = {"mean": [_short(s / n) if n else None for s, n in zip([*self._sums, *[0.0] * length], known)]}
        if any(count > 1 for count in known):
            found["least"] = [_short(value) if n else None for value, n in zip([*self._least, *[0.0] * length], known)]
            found["greatest"] = [_short(value) if n else None for value, n in zip([*self._greatest, *[0.0] * length], known)]
        return found


class Points:
    """The mapping from records to points, common to the series of a query; ``width`` is the number of records per point."""

    __slots__ = ("_batches", "_records", "_times", "width")

    def __init__(self) -> None:
        self.width = 1
        self._records = 0
        self._batches: list[int] = []
        self._times: Numbers = []

    def next(self, batch: int, time: int | None, series: Iterable[dict[str, Series]]) -> int:
        """The point of the next record; merges the points of these series when all are used."""
        if self._records == self.width * MOST_POINTS:
            self.width *= 2
            self._batches, self._times = self._batches[::2], self._times[::2]
            for named in series:
                for name, one in named.items():
                    named[name] = one.merged(2)
        point = self._records // self.width
        if point == len(self._batches):
            self._batches.append(batch)
            self._times.append(time)
        self._records += 1
        return point

    def __len__(self) -> int:
        return len(self._batches)

    def to_json(self, merged: int = 1) -> dict[str, object]:
        """The number of records per point, and the batch and stream time of the first record of each point."""
        return {"width": self.width * merged, "batches": self._batches[::merged], "times": self._times[::merged]}


def _short(number: float) -> float:
    """A number rounded to six digits, which suffice for a chart; whole numbers as integers."""
    short = float(f"{number:.6g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short
