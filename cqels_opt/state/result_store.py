"""Result slots: the rows of a block that later steps need, in mapped files with indexes by key and by end.

A file has its rows in order of their ends, and an index for each set of variables by which the operators above look rows up. Steps
merge files of like size (a log-structured merge, O'Neil et al. 1996), so a look-up, or a search for rows that end, reads few files,
and each row is written a logarithmic number of times.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from cqels_opt.lod.index import Index
from cqels_opt.lod.order import is_sorted, stable_order
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.rows import Ints, Rows, concat, empty
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.state.worker_cache import Stamp, stamp_in_state
from cqels_opt.storage.columns import read_arrays, write_arrays
from cqels_opt.storage.compaction_policy import runs_to_merge
from cqels_opt.storage.shared_cache import SharedCache, cached
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.intervals import places_in

On = tuple[str, ...]
MERGED_FILES = 4  # that are merged at once: with fewer, most batches would rewrite what the batch before has written
KEPT_ROWS = 4_096  # of a run that stays in memory after it was written
MERGED = 4_000_000  # larger files are not merged: a merge holds its result in memory
START, END, N = "#start", "#end", "#n"


def is_result(file: SlotFile) -> bool:
    """Whether a file holds results of the previous query: rows of blocks, sums of groups, materialized answers and their terms."""
    return file.path.startswith("results/")


class ResultRun:
    """A file of result rows, mapped."""

    def __init__(self, rows: Rows, indexes: Mapping[On, Index]) -> None:
        self.rows, self.indexes = rows, indexes

    @classmethod
    def read(cls, path: Path) -> ResultRun:
        """The run in a file, mapped."""
        arrays, metadata = read_arrays(path)
        variables = json.loads(metadata["variables"])
        columns = {v: arrays[f"v{i}"] for i, v in enumerate(variables)}
        indexes: dict[On, Index] = {}
        for i, (on, by) in enumerate(json.loads(metadata["indexes"])):
            verified = tuple(columns[v] for v in on)
            keys, starts = arrays[f"keys{i}"], arrays[f"starts{i}"]
            indexes[tuple(on)] = Index(tuple(on), verified, by, keys, starts, arrays.get(f"rows{i}"))
        return cls(Rows(columns, arrays[START], arrays[END], arrays[N]), indexes)

    def after(self, previous: int) -> Rows:
        """The rows that end after an instant."""
        return self.rows.between(int(np.searchsorted(self.rows.end, previous, "right")), len(self.rows))

    def changing(self, previous: int, last: int, waiting: bool) -> Rows:
        """The rows that end in ``(previous, last]``; if some are ``waiting``, also those that start after ``previous``."""
        first, stop = np.searchsorted(self.rows.end, [previous, last], "right").tolist()
        ending = self.rows.between(first, stop)
        if not waiting:
            return ending
        later = self.rows.between(stop, len(self.rows))
        return concat([ending, later.take(np.flatnonzero(later.start > previous))])

    def of(self, keys: KeyFilter, previous: int) -> Rows:
        """The rows that have one of the keys and end after an instant."""
        order = tuple(sorted(keys.variables))
        if keys.parts > 1 or order not in self.indexes:
            return keys.within(self.after(previous))
        values = dict(zip(keys.variables, keys.columns))
        _, found = self.indexes[order].lookup(*(values[v] for v in order))
        return self.rows.take(found[self.rows.end[found] > previous])


def write_result_run(path: Path, rows: Rows, indexed: Iterable[On]) -> ResultRun:
    """Writes rows as a run, in order of their ends."""
    rows = rows if is_sorted(rows.end) else rows.take(stable_order(rows.end))
    arrays: dict[str, np.ndarray] = {f"v{i}": column for i, column in enumerate(rows.columns.values())}
    arrays |= {START: rows.start, END: rows.end, N: rows.n}
    described, indexes = [], {}
    for i, on in enumerate(indexed):
        indexes[on] = index = Index.build(on, [rows.columns[v] for v in on])
        arrays |= {f"keys{i}": index.keys, f"starts{i}": index.starts}
        if index.rows is not None:
            arrays[f"rows{i}"] = index.rows
        described.append((on, index.by))
    write_arrays(path, arrays, {"variables": json.dumps([*rows.columns]), "indexes": json.dumps(described)})
    return ResultRun(rows, indexes)


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The result slots of one block: their names and their indexes."""

    label: str
    output: On
    indexed: tuple[On, ...]

    def write(self, step: EvaluationStep, rows: Rows, name: str, kind: str = "result", in_memory: bool = True) -> list[SlotFile]:
        """Writes rows to a file of the task ``name``. ``in_memory``: if they are few, they also stay in memory for the next step."""
        if not len(rows):
            return []
        path = f"results/{step.batch:08d}-{self.label.replace('/', '-')}-{name}.arrow"
        run = write_result_run(step.path / path, rows, self.indexed)
        rows = run.rows
        if in_memory and len(rows) <= KEPT_ROWS:
            whole = f"{step.folder}/{path}"
            _WRITTEN[whole] = stamp_in_state(whole), run
        return [SlotFile(kind, path, "", self.label, len(rows), int(rows.start.max()), int(rows.end[-1]))]

    def files(self, step: EvaluationStep) -> list[SlotFile]:
        """The files of a step that have rows which end after the instant reported last."""
        previous = int(step.instants[0])
        return [file for file in step.select("result", shape=self.label) if file.greatest > previous]

    def runs(self, step: EvaluationStep) -> list[tuple[SlotFile, ResultRun]]:
        """These files, mapped."""
        held = cached(_HELD, (step.run, self.label), dict)
        files, found = self.files(step), []
        for file in files:
            whole = f"{step.folder}/{file.path}"
            mark, known = stamp_in_state(whole), held.get(file.path)
            if known is None or known[0] != mark:
                written = _WRITTEN.pop(whole, None)
                known = written if written is not None and written[0] == mark else (mark, ResultRun.read(Path(whole)))
            held[file.path] = known
            found.append((file, known[1]))
        for gone in held.keys() - {file.path for file in files}:
            del held[gone]
        return found

    def merged(
        self, step: EvaluationStep, name: str, fold: Callable[[Rows], Rows] = lambda rows: rows
    ) -> tuple[list[SlotFile], list[str]]:
        """Merges files of like size, with ``fold`` over their rows: (files written, paths of the files that they replace).

        Rows that have not started at the last reported instant stay in files of their own, because they are read from whole files.
        """
        previous = int(step.instants[0])
        written: list[SlotFile] = []
        replaced: list[str] = []
        for waiting in (False, True):
            files = [file for file in self.files(step) if (file.least > previous) == waiting and file.rows < MERGED]
            files.sort(key=lambda file: -file.rows)
            some = runs_to_merge([file.rows for file in files], MERGED)
            if some is not None and some.stop - some.start >= MERGED_FILES:
                paths = {file.path for file in files[some]}
                rows = concat([run.after(previous) for file, run in self.runs(step) if file.path in paths])
                written += self.write(step, fold(rows), f"merged{int(waiting)}-{name}")
                replaced += sorted(paths)
        return written, replaced


Stamped: TypeAlias = "tuple[Stamp, ResultRun]"
_HELD: SharedCache[tuple[str, str], dict[str, Stamped]] = SharedCache(1024)
_WRITTEN: SharedCache[str, Stamped] = SharedCache(1 << 20, getsizeof=lambda stamped: 1 + len(stamped[1].rows))
"""Small runs that this process has written: the next step need not read their files."""


@dataclass(slots=True)
class BlockRows:
    """The rows of a block in a step, with intervals as positions of instants: rows of earlier steps and fresh ones.

    ``read`` counts the rows that operators above have read.
    """

    output: On
    instants: Ints
    fresh: Sequence[Rows]  # intervals of time
    runs: Sequence[tuple[SlotFile, ResultRun]] = ()
    read: int = field(default=0)

    def of(self, keys: KeyFilter) -> Rows:
        """All rows that have one of the keys."""
        keys, previous = keys.narrowed(self.output), int(self.instants[0])
        if not keys.some:
            return empty(self.output)
        if keys.all or keys.parts > 1:
            return self._given([*self.fresh, *(run.after(previous) for _, run in self.runs)], keys)
        return self._given([*map(keys.within, self.fresh), *(run.of(keys, previous) for _, run in self.runs)])

    def changing(self, keys: KeyFilter) -> Rows:
        """The rows that have one of the keys and begin or end in the step."""
        rows = self._given(self.parts(whole=False), keys)
        return rows.take((rows.start > 0) | (rows.end < len(self.instants)))

    def all_change(self) -> bool:
        """Whether all rows are fresh ones that begin in the step."""
        return not self.runs and all((rows.start > self.instants[0]).all() for rows in self.fresh)

    def parts(self, whole: bool) -> list[Rows]:
        """The rows of the step, or those that begin or end in it and perhaps others, with intervals of time; files are mapped."""
        previous, last = int(self.instants[0]), int(self.instants[-1])
        if whole:
            return [*self.fresh, *(run.after(previous) for _, run in self.runs)]
        return [*self.fresh, *(run.changing(previous, last, file.least > previous) for file, run in self.runs)]

    def alone(self, rows: Sequence[Rows]) -> BlockRows:
        """A block that has these rows only."""
        return BlockRows(self.output, self.instants, rows)

    def _given(self, parts: Sequence[Rows], keys: KeyFilter | None = None) -> Rows:
        rows = concat([empty(self.output), *parts])
        rows = rows if keys is None else keys.within(rows)
        rows = rows.with_interval(places_in(self.instants, rows.start), places_in(self.instants, rows.end))
        self.read += len(rows)
        return rows
