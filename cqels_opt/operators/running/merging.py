"""Small files of the state become few large ones, beside the batches: slots become segments, pages of terms larger pages.

What is merged is decided where a batch commits, from the names and sizes of the files that count; the work is a task that an executor
does outside the batch's critical path; what came of it takes the place of its inputs with a later commit record. Until then, and as long
as a batch may run again, the inputs stay: a merge that was killed, or that nobody waited for, has left a file that nothing names.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from cqels_opt.errors import CqelsOptError, RunError
from cqels_opt.operators.planning.workshop import Start
from cqels_opt.operators.program import Program
from cqels_opt.operators.segments import Layout, SegmentTask, layouts, merge_segments
from cqels_opt.operators.terms import Page, write_page
from cqels_opt.rdf.ids import once
from cqels_opt.windows.slots import SlotFile
from cqels_opt.windows.tiers import Tiers


@dataclass(frozen=True, slots=True)
class PagesTask:
    """Pages of terms of one stream that become one at ``path``."""

    folder: str
    path: str
    pages: tuple[SlotFile, ...]


MergeTask: TypeAlias = "SegmentTask | PagesTask"

FAILURES = 3
"""Merges in a row that may fail before the run does."""

MERGED = "merged"
"""Stands for the shape of a page that was merged."""


def merge(task: MergeTask) -> SlotFile:
    """Does a merge: writes one file, deletes none."""
    return merge_segments(task) if isinstance(task, SegmentTask) else _merge_pages(task)


def _merge_pages(task: PagesTask) -> SlotFile:
    folder = Path(task.folder)
    pages = [Page(folder / file.path) for file in task.pages]
    ids, texts = once(np.concatenate([page.ids for page in pages]), pa.concat_arrays([page.terms for page in pages]))
    write_page(folder / task.path, ids, texts)
    greatest = max(file.greatest for file in task.pages)
    return SlotFile("terms", task.path, task.pages[0].stream, MERGED, len(ids), greatest, greatest)


class Merging:
    """The merges of one run, while its batches go on. ``run`` has tasks done; ``start`` says when and where, see workshop.py."""

    def __init__(
        self,
        folder: Path,
        programs: Sequence[Program],
        tiers: Tiers,
        run: Callable[[Sequence[MergeTask]], list[SlotFile]],
        start: Start,
    ) -> None:
        self.folder, self.tiers, self._run, self._start = folder, tiers, run, start
        self._layouts = layouts(programs)
        self._round: _Round | None = None
        self._failures = 0

    def forget(self) -> None:
        """What is under way is of no use: an earlier state has been taken up."""
        self._round = None

    def wait(self, seconds: float) -> None:
        """Waits for what is under way, which the next commit then takes."""
        if self._round is not None:
            self._round.ended.wait(seconds)

    def settled(self, files: Sequence[SlotFile], batch: int, frontier: int) -> list[SlotFile]:
        """The files of a state with what has been merged in the place of its inputs; begins what is to be merged next.

        Rows up to ``frontier`` are all there: what comes later is behind it in time, or late.
        """
        found = self._taken(list(files))
        if self._round is None and (tasks := self._due(found, f"{batch:08d}-{os.urandom(4).hex()}", frontier)):
            mine = self._round = _Round(tasks)
            self._start(lambda: mine.do(self._run))
        return self._taken(found)

    def _taken(self, files: list[SlotFile]) -> list[SlotFile]:
        """The files, with merged ones where they are there."""
        if self._round is None or not self._round.ended.is_set():
            return files
        done, self._round = self._round, None
        if done.failed is not None:
            self._failures += 1
            if self._failures == FAILURES:
                raise RunError(f"files of {self.folder} cannot be merged: {done.failed}") from done.failed
            return files
        self._failures = 0
        for task, merged in zip(done.tasks, done.merged, strict=True):
            files = [*(f for f in files if not _replaced(f, task, merged)), merged]
        return files

    def _due(self, files: Sequence[SlotFile], name: str, frontier: int) -> list[MergeTask]:
        """What is to be merged now: of each shape, and of the pages of each stream, at most one group of neighbours."""
        found: list[MergeTask] = []
        for number, layout in enumerate(self._layouts):
            mine = [f for f in files if f.stream == layout.shape.stream and f.shape == layout.shape.key]
            task = self._segments(layout, mine, f"slots/segment-{name}-{number}.arrow", frontier)
            found += [task] if task else []
        pages = [f for f in files if f.kind == "terms"]
        for number, stream in enumerate(dict.fromkeys(f.stream for f in pages)):
            mine = [f for f in pages if f.stream == stream]
            small, large = [f for f in mine if not f.shape], [f for f in mine if f.shape == MERGED]
            if group := self.tiers.group([f.rows for f in large], [f.rows for f in small]):
                some, all_small = group
                inputs = (*large[some], *(small if all_small else []))
                found.append(PagesTask(str(self.folder), f"slots/terms-{name}-m{number}.arrow", inputs))
        return found

    def _segments(self, layout: Layout, files: Sequence[SlotFile], path: str, frontier: int) -> SegmentTask | None:
        """The merge of one shape."""
        segments = sorted((f for f in files if f.kind == "segment"), key=lambda f: f.least)
        slots = [f for f in files if f.kind == "slot"]
        group = self.tiers.group([f.rows for f in segments], [f.rows for f in slots if f.greatest <= frontier])
        if group is None:
            return None
        some, passed = group
        mine = [f for f in slots if f.least <= frontier] if passed else []
        earlier = tuple(segments[: some.start])
        return SegmentTask(str(self.folder), path, layout, tuple(segments[some]), tuple(mine), frontier, earlier)


def _replaced(file: SlotFile, task: MergeTask, merged: SlotFile) -> bool:
    """Whether a merge has everything of a file."""
    if isinstance(task, PagesTask):
        return file in task.pages
    slot = file.kind == "slot" and (file.stream, file.shape) == (merged.stream, merged.shape) and file.greatest <= merged.greatest
    return file in task.segments or (bool(task.slots) and slot)


class _Round:
    """Merges that are done together."""

    def __init__(self, tasks: Sequence[MergeTask]) -> None:
        self.tasks, self.merged = tuple(tasks), list[SlotFile]()
        self.failed: Exception | None = None
        self.ended = threading.Event()

    def do(self, run: Callable[[Sequence[MergeTask]], list[SlotFile]]) -> None:
        """Has them done. What goes wrong is said where the outcome is asked for: batches go on without."""
        try:
            self.merged = run(self.tasks)
        except (CqelsOptError, OSError, MemoryError, ValueError) as failure:
            self.failed = failure
        finally:
            self.ended.set()
