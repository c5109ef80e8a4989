"""A checkpoint that continues with a changed query: what must be the same, and how the new state is derived from the old one.

Windows and report policies decide at which instants queries report and how long elements are kept. If these are the same, the
binding slots are those that the new query would have kept, for each of its patterns that the old query had as well. Its result
slots are joined again from them, and its statistics are counted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.ingest import count_parts
from cqels_opt.state.slot_indexes import INDEX
from cqels_opt.state.sorted_runs import SortedRun
from cqels_opt.state.time_slices import TIME_SLICE, covered_until, read_time_slice
from cqels_opt.stats import SlotCounts, slot_parts
from cqels_opt.storage import sealed_files
from cqels_opt.storage.columns import Columns, read_columns, write_columns
from cqels_opt.windows.binding_slots import Shape, SlotFile, read_span
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of

TAKEN = "taken-"  # prefix of result slots that are made for a changed query: no batch gives its own files such a name


def windows_of(program: CompiledProgram) -> Any:
    """What the instants and the retention of a query depend on, without the names of its windows; and the order of its streams."""
    windows = []
    for window in program.windows:
        policy, origin = program.report.policy(window.name), program.report.origin(window.name)
        fields = {name: value for name, value in asdict(window).items() if name != "name"}
        windows.append([fields, window.name in program.report.by_window, asdict(policy), origin])
    distinct = {repr(window): window for window in windows}
    return {"streams": list(program.streams), "windows": [distinct[text] for text in sorted(distinct)]}


def patterns_of(programs: Iterable[CompiledProgram]) -> dict[str, str]:
    """The shapes whose binding slots are kept, with a name that is the same for all queries.

    Under a window of the last n elements a shape needs the elements' positions as well, which are not kept for others.
    """
    found: dict[str, str] = {}
    occurrences = (o for program in programs for block in program.blocks for o in block.occurrences)
    for o in (part for occurrence in occurrences for part in occurrence.parts):
        found.setdefault(f"{o.shape.stream} {o.shape.key}", o.name)
        if kind_of(o.window).counts_elements:
            found.setdefault(f"{o.shape.stream} {o.shape.key} last", o.name)
    return found


def without_time_slices(folder: Path, files: Sequence[SlotFile], batch: int) -> list[SlotFile]:
    """The files of a state with slots instead of time slices, and without indexes: they were chosen for the plans of the previous query."""
    found = [f for f in files if f.kind not in (TIME_SLICE, "slot", INDEX)]
    for shape in dict.fromkeys((f.stream, f.shape) for f in files if f.kind in (TIME_SLICE, "slot")):
        mine = [f for f in files if (f.stream, f.shape) == shape]
        slices = [f for f in mine if f.kind == TIME_SLICE]
        upto = covered_until(slices)
        found += [f for f in mine if f.kind == "slot" and f.least > upto]
        parts = [_columns(read_time_slice(folder / f.path)) for f in slices]
        straddling = [f for f in mine if f.kind == "slot" and f.least <= upto < f.greatest]
        parts += [_since(read_columns(folder / f.path), upto) for f in straddling]
        for number, columns in enumerate(parts):
            t = columns["t"]
            path = f"slots/{TAKEN}{batch:08d}-{shape[1]}-{len(found)}-{number}.arrow"
            write_columns(folder / path, columns)
            found.append(SlotFile("slot", path, *shape, len(t), int(t[0]), int(t[-1])))
    return found


def _columns(run: SortedRun) -> Columns:
    """The columns of a slot; time slices do not keep the elements' positions, which no window needs then."""
    times = run.times()
    return {"t": times, "e": np.zeros(len(times), np.int64), **{name: np.asarray(c) for name, c in run.relation.columns.items()}}


def _since(columns: Columns, upto: int) -> Columns:
    first = int(np.searchsorted(columns["t"], upto, "right"))
    return {name: column[first:] for name, column in columns.items()}


def counted_again(
    folder: Path, files: Sequence[SlotFile], shapes: Sequence[Shape], upto: int, after: int = int(BEFORE_TIME)
) -> dict[str, list[SlotCounts]]:
    """The counts of the rows that the frontier has passed, by stream and shape: from the slots, one file at a time; or of those ``after``
    a time."""
    found: dict[str, list[SlotCounts]] = {}
    for shape in shapes:
        for file in files:
            if (file.kind, file.stream, file.shape) == ("slot", shape.stream, shape.key):
                columns = read_span(folder, [file], after, upto, shape.width)
                values = {f"v{i}": columns[f"v{i}"] for i in range(shape.width)}
                found.setdefault(shape.stream + shape.key, []).extend(
                    slot_parts(0, columns["t"], values, count_parts(len(columns["t"])))
                )
    return found


def counted_all(folder: Path, files: Sequence[SlotFile], shapes: Sequence[Shape], upto: int) -> dict[str, list[SlotCounts]]:
    """:func:`counted_again`, also for time slices."""
    found = counted_again(folder, [f for f in files if f.kind == "slot"], shapes, upto)
    for shape in shapes:
        slices = [f for f in files if (f.kind, f.stream, f.shape) == (TIME_SLICE, shape.stream, shape.key)]
        if not slices:
            continue
        behind = covered_until(slices)
        slots = [f for f in files if (f.kind, f.stream, f.shape) == ("slot", shape.stream, shape.key) and f.greatest > behind]
        parts = [_columns(read_time_slice(folder / f.path)) for f in slices]
        parts.append(read_span(folder, slots, behind, upto, shape.width))
        counted = (
            slot_parts(0, c["t"], {f"v{i}": c[f"v{i}"] for i in range(shape.width)}, count_parts(len(c["t"]))) for c in parts
        )
        found[shape.stream + shape.key] = [counts for some in counted for counts in some]
    return found


def renumbered_results(folder: Path, kept: Iterable[SlotFile]) -> list[SlotFile]:
    """The result slots of such a step, under names that the next batch does not write."""
    moved = []
    for file in kept:
        path = Path(file.path)
        taken = path.with_name(TAKEN + path.name)
        sealed_files.move(folder / path, folder / taken)
        moved.append(replace(file, path=str(taken)))
    return moved
