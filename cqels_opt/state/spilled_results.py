"""Rows that are too many to be held at once, in files by a hash of their values: equal rows are in one file (as in a Grace hash join)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from cqels_opt.operators import rows as row_sets
from cqels_opt.operators.rows import Rows, concat
from cqels_opt.state.result_store import ResultRun, write_result_run
from cqels_opt.storage import sealed_files

FILES = 64
"""The number of files that rows are spread over: with a hundred times the rows that fit in memory, each has two chunks."""


def apart(parts: Iterable[Rows], columns: Sequence[str], path: Path) -> Iterator[Rows]:
    """All rows of the parts: at once or, if they are more than a chunk, in groups, so that rows with equal values are in one group.

    ``path`` is the prefix of the files, which exist until all rows have been yielded.
    """
    waiting = iter(parts)
    held: list[Rows] = []
    total = 0
    for part in waiting:
        held.append(part)
        total += len(part)
        if total > row_sets.CHUNK:
            break
    if total <= row_sets.CHUNK:
        yield concat(held)
        return
    files: dict[int, list[Path]] = {}
    try:
        for number, rows in enumerate(chain(held, waiting)):
            _spill(rows, columns, number, path, files)
        for some in files.values():
            yield concat([ResultRun.read(file).rows for file in some])
    finally:
        for file in chain.from_iterable(files.values()):
            sealed_files.delete(file)


def _spill(rows: Rows, columns: Sequence[str], number: int, path: Path, files: dict[int, list[Path]]) -> None:
    where = (rows.mixed(columns).view(np.uint64) % np.uint64(FILES)).astype(np.int64)
    order = np.argsort(where, kind="stable")
    edges = np.searchsorted(where[order], np.arange(FILES + 1))
    for to in np.flatnonzero(np.diff(edges)).tolist():
        file = path.with_name(f"{path.name}-spilled{to}-{number}.arrow")
        write_result_run(file, rows.take(order[edges[to] : edges[to + 1]]), ())
        files.setdefault(to, []).append(file)
