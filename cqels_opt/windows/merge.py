"""Merges files of stream elements into one sequence, and judges lateness.

The next element comes from the file whose next element has the least time; of equals, from the file that was named first. No file is
re-ordered. This equals an order of all elements by (greatest time so far in their file, file, place in the file), which is how the
merge sorts whole blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LEAST = -(2**62)
"""Before every time."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Rows in the order of the replay; the rows of an element are adjacent.

    ``rows`` has the columns of the reader; ``source`` is the file's number, ``reached`` the greatest time so far in that file,
    and ``late`` whether the element is late (SEMANTICS §4).
    """

    rows: pa.Table
    source: NDArray[np.int64]
    reached: NDArray[np.int64]
    late: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.source)


@dataclass(slots=True)
class _Source:
    """A file that is being read, with the rows that have not been taken yet."""

    number: int
    batches: Iterator[pa.RecordBatch]
    lateness: int
    greatest: int = LEAST
    ended: bool = False
    rows: pa.RecordBatch | None = None
    reached: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    late: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    def fill(self) -> None:
        """Reads the next batch if no row is left."""
        while not len(self.reached) and not self.ended:
            batch = next(self.batches, None)
            if batch is None:
                self.ended = True
            elif len(batch):
                times = np.asarray(batch.column("t").to_numpy(), np.int64)
                running = np.maximum.accumulate(np.concatenate([[self.greatest], times]))
                self.rows, self.reached = batch, running[1:]
                self.late = times <= running[:-1] - 1 - self.lateness
                self.greatest = int(running[-1])

    def take(self, count: int) -> Merged:
        """The first ``count`` rows."""
        assert self.rows is not None
        taken = Merged(
            pa.Table.from_batches([self.rows.slice(0, count)]),
            np.full(count, self.number, np.int64),
            self.reached[:count],
            self.late[:count],
        )
        self.rows, self.reached, self.late = self.rows.slice(count), self.reached[count:], self.late[count:]
        return taken


def merge(files: Sequence[Iterator[pa.RecordBatch]], lateness: int) -> Iterator[Merged]:
    """The rows of all files in the order of the replay; memory holds about one batch per file.

    A batch has columns ``t`` and ``element`` among others. No element is split between batches.
    """
    sources = [_Source(number, batches, lateness) for number, batches in enumerate(files)]
    while True:
        for source in sources:
            source.fill()
        live = [source for source in sources if len(source.reached)]
        if not live:
            return
        # All rows before the end of the buffer that ends first are known; for later rows its file must be read further.
        bound = min((int(source.reached[-1]), source.number) for source in live)
        parts = []
        for source in live:
            side = "right" if source.number <= bound[1] else "left"
            if count := int(np.searchsorted(source.reached, bound[0], side)):  # type: ignore[call-overload]
                parts.append(source.take(count))
        yield _interleave(parts)


def _interleave(parts: list[Merged]) -> Merged:
    if len(parts) == 1:
        return parts[0]
    reached = np.concatenate([part.reached for part in parts])
    order = np.argsort(reached, kind="stable")
    return Merged(
        pa.concat_tables([part.rows for part in parts]).take(order),
        np.concatenate([part.source for part in parts])[order],
        reached[order],
        np.concatenate([part.late for part in parts])[order],
    )
