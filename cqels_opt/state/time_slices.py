"""Time slices: the old part of a window on disk, one file (of kind ``segment``) per stretch of time and shape, with indexes on join keys.

Compaction merges slots into a time slice, whose rows are sorted by time. Its file is mapped: all workers of a machine share its pages, and
a restart opens it at once. The time slices of a shape are consecutive. They have all elements up to the last time of the last one; rows of
slots up to that time do not count any more. An index has sorted values with the starts of their runs and a permutation of the rows, as in
:mod:`cqels_opt.lod.index`. A composite key has an index of its own only if no index on one of its columns is selective enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.index import VERIFY_LIMIT, Index
from cqels_opt.lod.order import Ids
from cqels_opt.lod.relation import Relation
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.state.sorted_runs import SortedRun, joined, run_of
from cqels_opt.state.worker_cache import Stamp, stamp_in_state
from cqels_opt.storage.columns import read_arrays, write_arrays
from cqels_opt.windows.binding_slots import Shape, SlotFile, read_span
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of

Key = tuple[int, ...]
TIME_SLICE = "segment"
"""The kind of a file with a time slice."""
MOST_VERIFIED = 2.5
"""The ``VERIFY_LIMIT`` of time slices: they are probed in each micro-batch while they exist, so that sorting by all columns pays sooner."""
_LAYOUT = "cqels-opt segment"


@dataclass(frozen=True, slots=True)
class Layout:
    """What time slices of a shape have next to their rows: indexes on these columns and, for sets, the times of earlier equal rows."""

    shape: Shape
    keys: tuple[Key, ...]
    repeats: bool


def layouts(programs: Sequence[CompiledProgram]) -> tuple[Layout, ...]:
    """The shapes that are merged into time slices: all but those of windows that count elements, which have few rows.

    Keys are those that some plan may join on: each set of the variables that an occurrence shares with other relations of its block.
    """
    keys: dict[Shape, set[Key]] = {}
    repeats, excluded = set[Shape](), set[Shape]()
    for block in (block for program in programs for block in program.blocks):
        for occurrence in block.occurrences:
            others = {v for o in block.occurrences if o is not occurrence for v in o.variables}
            others |= {v for s in block.statics for v in (*s.variables, *s.on, *s.reads)}
            shared = [i for i, v in enumerate(occurrence.variables) if v in others]
            for part in occurrence.parts:
                mine = keys.setdefault(part.shape, set())
                mine |= {key for size in range(1, len(shared) + 1) for key in combinations(shared, size)}
                if part.distinct:
                    repeats.add(part.shape)
                    mine |= {tuple(range(part.shape.width))} - {()}
                if kind_of(part.window).counts_elements:
                    excluded.add(part.shape)
    return tuple(Layout(s, tuple(sorted(found)), s in repeats) for s, found in keys.items() if s not in excluded)


# ------------------------------------------------------------------ files
def write_time_slice(path: Path, run: SortedRun, keys: Sequence[Key]) -> None:
    """Writes a run with its indexes."""
    arrays: dict[str, NDArray[Any]] = {**run.relation.columns}
    narrow = run.last - run.first < 1 << 32  # seven weeks of milliseconds
    arrays["t"] = (run.times() - run.first).astype(np.uint32) if narrow else run.times() - run.first
    if run.before is not None:
        arrays["before"] = run.before
    indexes, described = indexes_on(run.relation, keys, MOST_VERIFIED)
    write_arrays(path, arrays | indexes, {_LAYOUT: json.dumps({"base": run.first, "rows": len(run), "keys": described})})


def indexes_on(
    relation: Relation, keys: Sequence[Key], most: float = VERIFY_LIMIT
) -> tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]:
    """The arrays of indexes on some keys, by name, and for each key its entry in the header; see :func:`indexes_from`.

    Those that the relation has are taken; ``most`` is that of :meth:`Index.build` for the others.
    """
    arrays: dict[str, NDArray[Any]] = {}
    by_variable = {v: relation.index((v,)) for v in {f"v{i}" for key in keys for i in key}}
    described = []
    for key in sorted(keys, key=len):
        on = tuple(f"v{i}" for i in key)
        known = on in relation.indexes
        index = relation.index(on) if known else Index.build(on, [relation.columns[v] for v in on], by_variable, most)
        at = "-".join(map(str, key)) if index.by is None else str(key[index.by])
        arrays[f"keys {at}"] = index.keys
        arrays[f"starts {at}"] = index.starts.astype(np.int32)
        if index.rows is not None:
            arrays[f"rows {at}"] = index.rows
        described.append({"on": list(key), "by": index.by, "at": at})
    return arrays, described


def read_time_slice(path: Path) -> SortedRun:
    """A time slice, mapped."""
    arrays, metadata = read_arrays(path)
    header = json.loads(metadata[_LAYOUT])
    columns = {name: arrays[name] for name in sorted(arrays) if name.startswith("v")}
    indexes = indexes_from(header["keys"], arrays, columns)
    return SortedRun(Relation(columns, None, header["rows"], indexes), header["base"], arrays["t"], arrays.get("before"))


def indexes_from(
    described: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]], columns: Mapping[str, Ids]
) -> list[Index]:
    """The indexes of :func:`indexes_on` over the columns."""
    found = []
    for one in described:
        on, at = tuple(f"v{i}" for i in one["on"]), one["at"]
        parts = arrays[f"keys {at}"], arrays[f"starts {at}"], arrays.get(f"rows {at}")
        found.append(Index(on, tuple(columns[name] for name in on), one["by"], *parts))
    return found


_MAPPED: WeakValueDictionary[tuple[str, Stamp], SortedRun] = WeakValueDictionary()


def opened_once(path: Path, read: Callable[[], SortedRun]) -> SortedRun:
    """The run of a file. A worker opens it once, and maps it as long as a window has it: a mapped file takes its space on disk."""
    key = (str(path), stamp_in_state(path))
    found = _MAPPED.get(key)
    if found is None:
        found = _MAPPED[key] = read()
    return found


def time_slice(path: Path) -> SortedRun:
    """A time slice; see :func:`opened_once`."""
    return opened_once(path, lambda: read_time_slice(path))


def covered_until(slices: Sequence[SlotFile]) -> int:
    """The time up to which the time slices of one shape have all elements."""
    return max((s.greatest for s in slices), default=int(BEFORE_TIME))


# ------------------------------------------------------------------ merging
@dataclass(frozen=True, slots=True)
class TimeSliceMergeTask:
    """Consecutive time slices, and the rows of slots after the last of them up to a time, become one time slice at ``path``.

    ``earlier`` are the time slices before them, which may have equal rows.
    """

    folder: str
    path: str
    layout: Layout
    slices: tuple[SlotFile, ...]
    slots: tuple[SlotFile, ...]
    upto: int
    earlier: tuple[SlotFile, ...]


def merge_time_slices(task: TimeSliceMergeTask) -> SlotFile:
    """Writes the merged time slice. Nothing is deleted: the replaced files count until a commit record names the new one."""
    folder, shape = Path(task.folder), task.layout.shape
    parts = [read_time_slice(folder / s.path) for s in task.slices]
    if task.slots:
        after = covered_until((*task.earlier, *task.slices))
        columns = read_span(folder, list(task.slots), after, task.upto, shape.width)
        earlier = [*parts, *(read_time_slice(folder / s.path) for s in task.earlier)] if task.layout.repeats else None
        new = run_of(columns, shape.width, earlier)
        parts += [new] if new is not None else []
    if task.layout.repeats:  # of a query added later, as a set, over rows kept as a bag: it sees no earlier rows
        parts = [run if run.before is not None else replace(run, before=np.full(len(run), BEFORE_TIME)) for run in parts]
    for key in task.layout.keys if task.slices else ():  # rows of slots have no indexes, and those of all parts are merged
        parts[-1].relation.index(tuple(f"v{i}" for i in key))
    run = joined(parts, 0)
    write_time_slice(folder / task.path, run, task.layout.keys)
    return SlotFile(TIME_SLICE, task.path, shape.stream, shape.key, len(run), run.first, run.last)
