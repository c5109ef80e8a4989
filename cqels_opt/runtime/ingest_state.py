"""The elements ingested so far: their times by stream, and the counts that wait until the frontier has passed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cqels_opt.operators.rows import Ints
from cqels_opt.runtime.ingest import COUNT_PARTS, IngestReport
from cqels_opt.state.pending_counts import (
    HELD,
    LostOptimizerStateError,
    Pending,
    WaitingCounts,
    read_counts,
    read_pending,
    write_pending,
)
from cqels_opt.stats import SlotCounts
from cqels_opt.stats.slots import combined
from cqels_opt.storage.columns import read_columns, write_columns
from cqels_opt.storage.compaction_policy import MERGED, CompactionPolicy
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.timeline import Timeline


class IngestState:
    """The elements of all streams of a run, as far as instants and statistics need them.

    ``times`` are the elements' times by stream, ``pending`` the counts that wait, by stream and shape, and ``counted`` is the last number
    that was given to counts. ``note`` reports statistics that are lost; ``counts_lost``: there were such.
    """

    def __init__(
        self,
        folder: Path,
        streams: Sequence[str],
        tiers: CompactionPolicy,
        files: Sequence[SlotFile],
        note: Callable[[str], None],
    ) -> None:
        self.folder, self.tiers, self._note = folder, tiers, note
        self.times = {stream: Timeline() for stream in streams}
        self._unwritten: dict[str, Timeline] = {}  # times that are in no file yet
        self.pending: Pending = {}
        self.counted = 0
        self.counts_lost = False
        for file in sorted((f for f in files if f.kind == "times"), key=lambda f: f.least):
            self.times[file.stream].add(read_columns(folder / file.path)["t"])

    def in_order(self) -> dict[str, Ints]:
        """The times of each stream."""
        return {stream: line.times for stream, line in self.times.items()}

    # -------------------------------------------------------------- times
    def add(self, reports: Iterable[IngestReport]) -> None:
        """Adds the elements of a stage of a batch; :meth:`write` writes their times."""
        for report in reports:
            for stream, seen in report.streams.items():
                if len(seen.times):
                    self.times[stream].add(seen.times)
                    self._unwritten.setdefault(stream, Timeline()).add(seen.times)

    def forget_times(self, stream: str, before: int) -> None:
        """Drops the times of a stream before an instant."""
        for line in (self.times[stream], self._unwritten.get(stream)):
            if line is not None:
                line.forget(before)

    def write(self, number: int, files: Sequence[SlotFile], upto: int) -> list[SlotFile]:
        """Writes what no file has yet, for a commit record: the times of elements, and the counts that wait at a frontier. Returns the
        files of the record: those given, of times merged if many are small, and the new ones.
        """
        new = {
            _times_file(f"{number:08d}-{i}", stream, "", line.times): line.times
            for i, (stream, line) in enumerate(self._unwritten.items())
            if len(line.times)
        }
        self._unwritten = {}
        found = self._merged(number, [*files, *new])
        for file, t in new.items():
            if file in found:  # others are merged already, and no record names them
                self._write(file, t)
        return [*found, *self._write_waiting(number, upto)]

    def _merged(self, number: int, files: list[SlotFile]) -> list[SlotFile]:
        for i, (stream, line) in enumerate(self.times.items()):
            mine = sorted((f for f in files if f.kind == "times" and f.stream == stream), key=lambda f: f.least)
            small, merged = [f for f in mine if not f.shape], [f for f in mine if f.shape]
            group = self.tiers.group([f.rows for f in merged], [f.rows for f in small])
            if group is None:
                continue
            some, all_small = group
            inputs = [*merged[some], *(small if all_small else [])]
            bounds = [min(f.least for f in inputs), max(f.greatest for f in inputs) + 1]
            t = line.times[slice(*np.searchsorted(line.times, bounds))]
            together = _times_file(f"{number:08d}-{i}m", stream, MERGED, t)
            self._write(together, t)
            files = [*(f for f in files if f not in inputs), together]
        return files

    def _write(self, file: SlotFile, t: Ints) -> None:
        write_columns(self.folder / file.path, {"t": t})

    # -------------------------------------------------------------- counts
    def resume(self, files: Sequence[SlotFile], upto: int) -> None:
        """Restores the counts that waited at a frontier. LostOptimizerStateError if one of their files is damaged."""
        self.pending = read_pending(self.folder, files, upto)

    def forget_counts(self) -> None:
        """Drops all counts, whose files are lost, and starts their numbers again."""
        self.pending, self.counted, self.counts_lost = {}, 0, True

    def numbered(self, parts: Iterable[SlotCounts]) -> list[SlotCounts]:
        """Counts with numbers of their own: the statistics take counts with equal numbers for the same."""
        self.counted += 1
        return [replace(part, slot=self.counted * COUNT_PARTS * 2 + i) for i, part in enumerate(parts)]

    def released(self, reports: Iterable[IngestReport], upto: int) -> Mapping[str, list[SlotCounts]]:
        """The counts of the elements that the frontier has passed; the others wait."""
        for report in reports:
            for stream, seen in report.streams.items():
                for shape, parts in seen.counts.items():
                    self.wait(stream + shape, self.numbered(parts))
        new, later = {}, {}
        for key, waiting in self.pending.items():
            if ready := [one for one in waiting if one.last <= upto]:
                found = self._read(ready)
                new[key] = found if len(found) <= 2 * COUNT_PARTS else combined(found, COUNT_PARTS)
            if len(ready) < len(waiting):
                later[key] = [one for one in waiting if one.last > upto]
        self.pending = later
        return new

    def _read(self, ready: Iterable[WaitingCounts]) -> list[SlotCounts]:
        found = []
        for one in ready:
            try:
                found.append(read_counts(self.folder, one))
            except LostOptimizerStateError as error:
                self.counts_lost = True
                self._note(f"statistics of the optimizer are incomplete until the windows have moved on: {error}")
        return found

    def begun(self, upto: int) -> dict[str, list[SlotCounts] | None]:
        """The counts that wait and of which the frontier has passed some elements; None where some are only in a file."""
        found: dict[str, list[SlotCounts] | None] = {}
        for key, waiting in self.pending.items():
            known = [one.counts for one in waiting if one.counts is not None]
            found[key] = [c for c in known if c.times[0] <= upto] if len(known) == len(waiting) else None
        return found

    def wait(self, key: str, counts: Iterable[SlotCounts]) -> None:
        """Counts of a stream and shape wait for the frontier; no file has them yet."""
        self.pending.setdefault(key, []).extend(WaitingCounts(int(c.times[-1]), c) for c in counts if len(c.times))

    def _write_waiting(self, number: int, upto: int) -> list[SlotFile]:
        """Writes the counts that wait and are in no file. Counts of much earlier batches leave memory."""
        waiting = [(key, one) for key, some in self.pending.items() for one in some if one.last > upto]
        for _, one in waiting:
            if one.path and one.batch <= number - HELD:
                one.counts = None
        return write_pending(self.folder, number, [(key, one) for key, one in waiting if not one.path])


def _times_file(name: str, stream: str, shape: str, t: Ints) -> SlotFile:
    return SlotFile("times", f"slots/times-{name}.arrow", stream, shape, len(t), int(t[0]), int(t[-1]))
