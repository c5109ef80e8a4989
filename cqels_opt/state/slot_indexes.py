"""Indexes of large slots: the task that ingests rows sorts them by each join key once, and every task that probes them maps the result.

An index is a file of its own (of kind ``index``) next to its slot. A slot without one, because it is small or its window is a set, is
indexed in memory by each worker that probes it. Compaction replaces both files by a time slice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cqels_opt.lod.relation import Relation
from cqels_opt.state.sorted_runs import SortedRun
from cqels_opt.state.time_slices import Key, indexes_from, indexes_on, opened_once
from cqels_opt.storage.columns import Columns, read_arrays, read_columns, write_arrays
from cqels_opt.windows.binding_slots import SlotFile

INDEX = "index"
INDEXED_FROM = 1 << 15
"""Rows of a slot that has an index file: to sort fewer takes a worker less time than to open the file."""
_LAYOUT = "cqels-opt slot index"


def index_of(slot: SlotFile) -> SlotFile:
    """The index file of a slot, which need not exist."""
    return replace(slot, kind=INDEX, path=slot.path.replace("slots/slot-", "slots/index-"))


def write_slot_index(folder: Path, slot: SlotFile, columns: Columns, keys: Sequence[Key]) -> SlotFile:
    """Writes the index of a slot of these columns."""
    arrays, described = indexes_on(Relation(columns, None, len(columns["t"])), keys)
    file = index_of(slot)
    write_arrays(folder / file.path, arrays, {_LAYOUT: json.dumps(described)})
    return file


def slot_run(folder: Path, slot: SlotFile) -> SortedRun:
    """A slot with its index, both mapped; see :func:`cqels_opt.state.time_slices.opened_once`."""
    return opened_once(folder / slot.path, lambda: _read(folder, slot))


def _read(folder: Path, slot: SlotFile) -> SortedRun:
    arrays, metadata = read_arrays(folder / index_of(slot).path, at_once=True)
    stored = read_columns(folder / slot.path)
    columns = {name: stored[name] for name in sorted(stored) if name.startswith("v")}
    indexes = indexes_from(json.loads(metadata[_LAYOUT]), arrays, columns)
    return SortedRun(Relation(columns, None, len(stored["t"]), indexes), 0, stored["t"])
