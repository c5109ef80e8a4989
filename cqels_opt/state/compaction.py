"""Compaction: small files of the state become few large ones in the background; slots become time slices, pages of terms larger pages.

The merges are chosen when a batch commits, from the names and sizes of the files that count. An executor does them outside the
batch's critical path, and a later commit record names the result in place of its inputs. Until then, and as long as a batch may run
again, the inputs stay: a merge that was killed leaves a file that no record names.

A merge that fails changes nothing: the run continues with the small files, and the merge is tried again after some batches. Other
merges do not wait for it.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from cqels_opt.errors import RunError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.term_table import Page, write_page
from cqels_opt.rdf.ids import once
from cqels_opt.state.deletion import delete
from cqels_opt.state.slot_indexes import INDEX, index_of
from cqels_opt.state.task_files import task_path
from cqels_opt.state.time_slices import TIME_SLICE, Layout, TimeSliceMergeTask, layouts, merge_time_slices
from cqels_opt.storage.compaction_policy import MERGED, CompactionPolicy
from cqels_opt.windows.binding_slots import SlotFile


@dataclass(frozen=True, slots=True)
class PagesTask:
    """Pages of terms of one stream that become one at ``path``."""

    folder: str
    path: str
    pages: tuple[SlotFile, ...]


MergeTask: TypeAlias = "TimeSliceMergeTask | PagesTask"
MergeResult: TypeAlias = SlotFile | Exception
"""The file that a merge gives, or why it failed."""

PAGE_SHARE = 4
"""The inverse of the greatest share of all terms that a merged page has: each page is searched for each new term."""

REST = 64
"""Batches, at most, between two attempts at a merge that fails."""


def merge(task: MergeTask) -> SlotFile:
    """Does a merge: it writes one file and deletes none."""
    return merge_time_slices(task) if isinstance(task, TimeSliceMergeTask) else _merge_pages(task)


def merge_each(tasks: Iterable[MergeTask]) -> Iterator[MergeResult]:
    """Does merges one by one."""
    for task in tasks:
        try:
            yield merge(task)
        except Exception as failure:  # noqa: BLE001  # any failure is noted: a failed merge never fails a run
            yield failure


def _merge_pages(task: PagesTask) -> SlotFile:
    folder = Path(task.folder)
    pages = [Page.open(folder / file.path) for file in task.pages]
    ids, texts = once(np.concatenate([page.ids for page in pages]), pa.concat_arrays([page.terms for page in pages]))
    write_page(folder / task.path, ids, texts)
    greatest = max(file.greatest for file in task.pages)
    return SlotFile("terms", task.path, task.pages[0].stream, MERGED, len(ids), greatest, greatest)


class Compaction:
    """The merges of one run, parallel to its batches. ``run`` does tasks; ``start`` decides when and where."""

    def __init__(
        self,
        folder: Path,
        programs: Sequence[CompiledProgram],
        tiers: CompactionPolicy,
        run: Callable[[Sequence[MergeTask]], list[MergeResult]],
        start: Callable[[Callable[[], None]], None],
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``note`` gets the first failure of each kind."""
        self.folder, self.tiers, self._run, self._start = folder, tiers, run, start
        self._page_tiers = replace(tiers, share=PAGE_SHARE)
        self.layouts = layouts(programs)
        self._round: _Round | None = None
        self._note, self._noted = note, set[str]()
        self._failed: dict[tuple[str, str], tuple[int, int]] = {}  # failures in a row and the batch of the next attempt, by shape
        self.failures = 0

    def set_programs(self, programs: Sequence[CompiledProgram]) -> None:
        """Sets the current programs. Results of running merges are not used: they are of other programs, or of a later state than the
        one that was restored.
        """
        self.layouts = layouts(programs)
        if self._round is not None:
            self._round.discarded = True

    def wait(self, seconds: float) -> None:
        """Waits for the running merges, whose result the next commit takes."""
        if self._round is not None:
            self._round.ended.wait(seconds)

    @property
    def reading(self) -> set[str]:
        """The files that the running merges read."""
        return set() if self._round is None else {path for task in self._round.tasks for path in _inputs(task)}

    def absorb_finished(self, files: Sequence[SlotFile], batch: int, frontier: int) -> list[SlotFile]:
        """The files of a state, with merged files in place of their inputs; starts the next merges.

        All rows up to ``frontier`` have arrived: later elements have later times, or are late.
        """
        found = self._taken(list(files), batch)
        if self._round is None:
            due = self._due(found, f"{batch:08d}-{os.urandom(4).hex()}", frontier)
            if tasks := [task for task in due if self._failed.get(_stream_and_shape(task), (0, batch))[1] <= batch]:
                self._round = _Round(tasks)
                self._round.begin(self._start, self._run)
        return self._taken(found, batch)

    def _taken(self, files: list[SlotFile], batch: int) -> list[SlotFile]:
        """The files, with merged files in place of their inputs if the merges have ended."""
        if self._round is None or not self._round.ended.is_set():
            return files
        done, self._round = self._round, None
        for task, result in zip(done.tasks, done.results, strict=True):
            if isinstance(result, SlotFile) and not done.discarded:
                self._failed.pop(_stream_and_shape(task), None)
                files = [*(f for f in files if not _replaced(f, task, result)), result]
                continue
            with suppress(OSError):  # the next start deletes what is left
                delete(self.folder, [task.path])
            if isinstance(result, Exception) and not done.discarded:
                self._count_failure(task, result, batch)
        return files

    def _count_failure(self, task: MergeTask, failure: Exception, batch: int) -> None:
        """Counts a failure. The next attempt is later after each one in a row."""
        self.failures += 1
        of = _stream_and_shape(task)
        in_a_row = self._failed.get(of, (0, 0))[0] + 1
        self._failed[of] = in_a_row, batch + min(REST, 1 << in_a_row)
        kind = type(failure).__name__
        if kind not in self._noted:
            self._noted.add(kind)
            self._note(f"files of {self.folder} cannot be merged now, and it is tried again later: {kind}: {failure}")

    def _due(self, files: Sequence[SlotFile], name: str, frontier: int) -> list[MergeTask]:
        """The merges that are due: at most one group of neighbours per shape, and per stream's pages."""
        found: list[MergeTask] = []
        by_shape: defaultdict[tuple[str, str], list[SlotFile]] = defaultdict(list)
        for file in files:
            by_shape[file.stream, file.shape].append(file)
        for number, layout in enumerate(self.layouts):
            task = self._merge_of(
                layout, by_shape[layout.shape.stream, layout.shape.key], f"slots/segment-{name}-{number}.arrow", frontier
            )
            found += [task] if task else []
        pages: defaultdict[str, list[SlotFile]] = defaultdict(list)
        for file in files:
            if file.kind == "terms":
                pages[file.stream].append(file)
        for number, mine in enumerate(pages.values()):
            small, large = [f for f in mine if not f.shape], [f for f in mine if f.shape == MERGED]
            if group := self._page_tiers.group([f.rows for f in large], [f.rows for f in small]):
                some, all_small = group
                inputs = (*large[some], *(small if all_small else []))
                found.append(PagesTask(task_path(self.folder), f"slots/terms-{name}-m{number}.arrow", inputs))
        return found

    def _merge_of(self, layout: Layout, files: Sequence[SlotFile], path: str, frontier: int) -> TimeSliceMergeTask | None:
        """The merge of one shape."""
        slices = sorted((f for f in files if f.kind == TIME_SLICE), key=lambda f: f.least)
        slots = [f for f in files if f.kind == "slot"]
        passed_by = [f for f in slots if f.greatest <= frontier]
        indexed = {f.path for f in files if f.kind == INDEX}
        without = sum(f.rows for f in passed_by if index_of(f).path not in indexed)  # an indexed slot is read like a time slice
        new = [f.rows for f in passed_by] if self.tiers.due(len(passed_by), without) else []
        group = self.tiers.group([f.rows for f in slices], new)
        if group is None:
            return None
        some, passed = group
        mine = [f for f in slots if f.least <= frontier] if passed else []
        earlier = tuple(slices[: some.start])
        return TimeSliceMergeTask(task_path(self.folder), path, layout, tuple(slices[some]), tuple(mine), frontier, earlier)


def _replaced(file: SlotFile, task: MergeTask, merged: SlotFile) -> bool:
    """Whether a merge has everything of a file."""
    if isinstance(task, PagesTask):
        return file in task.pages
    slot = (
        file.kind in ("slot", INDEX)
        and (file.stream, file.shape) == (merged.stream, merged.shape)
        and file.greatest <= merged.greatest
    )
    return file in task.slices or (bool(task.slots) and slot)


def _stream_and_shape(task: MergeTask) -> tuple[str, str]:
    """The stream and shape of the files of a merge; no shape for pages of terms."""
    return (task.pages[0].stream, "") if isinstance(task, PagesTask) else (task.layout.shape.stream, task.layout.shape.key)


def _inputs(task: MergeTask) -> list[str]:
    files = task.pages if isinstance(task, PagesTask) else (*task.slices, *task.slots, *task.earlier)
    return [file.path for file in files]


class _Round:
    """Merges that are begun together, and what each of them gave: a file, or why it failed."""

    def __init__(self, tasks: Sequence[MergeTask]) -> None:
        self.tasks = tuple(tasks)
        self.results: list[MergeResult] = [RunError("the merge was broken off")] * len(tasks)
        self.discarded = False
        self.ended = threading.Event()

    def begin(self, start: Callable[[Callable[[], None]], None], run: Callable[[Sequence[MergeTask]], list[MergeResult]]) -> None:
        """Starts them, when and where ``start`` decides."""
        try:
            start(lambda: self.do(run))
        except Exception as failure:  # noqa: BLE001  # for example, no thread can be started: a failed merge never fails a run
            self.results = [failure] * len(self.tasks)
            self.ended.set()

    def do(self, run: Callable[[Sequence[MergeTask]], list[MergeResult]]) -> None:
        """Does them. Failures are reported when the results are taken; batches continue."""
        try:
            found = run(self.tasks)
            if len(found) != len(self.tasks):  # a job of Spark has lost reports
                raise RunError(f"{len(found)} of {len(self.tasks)} merges gave a result")
            self.results = found
        except Exception as failure:  # noqa: BLE001  # for example of Spark's job
            self.results = [failure] * len(self.tasks)
        finally:
            self.ended.set()
