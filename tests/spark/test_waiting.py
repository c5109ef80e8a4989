"""Which files of live folders wait, and how the elements of those that are read are numbered: without a session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from cqels_opt.errors import RunError
from cqels_opt.operators.stages.ingest import ROW_SCHEMA, IngestReport, IngestTask
from cqels_opt.rdf.ids import PUBLIC
from cqels_opt.spark.files import FilesWaiting, Reading, in_places, modified, read_files

from .small_world import STREAM, rows, write_rows

SECOND = 1_000_000_000


def some_files(folder: Path, count: int) -> list[Path]:
    folder.mkdir()
    written = rows(5 * count, seed=1)
    for number in range(count):
        path = folder / f"{number}.ndjson"
        write_rows(path, written[5 * number : 5 * number + 5])
        os.utime(path, (SECOND + number, SECOND + number))
    (folder / ".hidden").write_text("")
    (folder / "_also").write_text("")
    return [folder / f"{number}.ndjson" for number in range(count)]


def named(paths: list[Path]) -> pa.Table:
    """As Spark's file source names them."""
    times = [datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in paths]
    places = pa.array([0] * len(paths), pa.int32())
    return pa.table(
        {
            "stream": places,
            "path": [f"file:{path}" for path in paths],
            "modificationTime": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def test_files_that_are_younger_wait(tmp_path: Path) -> None:
    paths = some_files(tmp_path / "live", 4)
    waiting = FilesWaiting([(0, tmp_path / "live")])
    assert waiting(0, [IngestReport(modified=modified(named(paths[:1])))]) == (None, 3)
    assert waiting(1, [IngestReport(modified=modified(named(paths[1:3])))]) == (None, 1)
    assert waiting(2, []) == (None, 1)
    paths[3].unlink()
    assert waiting(3, []) == (None, 0)


def test_files_that_have_just_gone_wait_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files may be cleared away at any moment, also between the folder's list and a look at a file."""
    paths = some_files(tmp_path / "live", 4)
    waiting = FilesWaiting([(0, tmp_path / "live")])
    entries = os.scandir

    @contextmanager
    def listed(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with entries(folder) as found:
            there = list(found)
        paths[2].unlink()
        yield iter(there)

    monkeypatch.setattr(os, "scandir", listed)
    assert waiting(0, [IngestReport(modified=modified(named(paths[:1])))]) == (None, 2)


def test_elements_are_numbered_on(tmp_path: Path) -> None:
    """From batch to batch and file to file, however many there are."""
    paths = some_files(tmp_path / "live", 3)
    paths[2] = paths[2].rename(tmp_path / "live" / "2 100%25#?.ndjson")  # Hadoop writes names as they are
    task = IngestTask("", 7, (STREAM,), (), "", PUBLIC, 0, frozenset())
    found, _ = read_files(named(paths[1:]), Reading({}, {0: 5}, 0, ""), task)
    assert found.column("offset").to_pylist() == list(range(5, 15))


# ------------------------------------------------------------------ elements that nobody has numbered
def unnumbered(offsets: list[int], graphs: list[str | None], streams: list[int] | None = None) -> pa.Table:
    size = len(offsets)
    columns = {"stream": streams or [0] * size, "partition": [0] * size, "offset": offsets, "g": graphs, "t": [1] * size}
    fixed = {"s": ["<s>"] * size, "p": ["<p>"] * size, "o": ["<o>"] * size, "late": [False] * size, "line": offsets}
    return pa.Table.from_pydict({**columns, **fixed}, ROW_SCHEMA)


def test_places_tell_all_elements_apart() -> None:
    """By their task, the row in it, and the whole name of their graph."""
    task = 1 << 33
    rows = unnumbered([0, 1, 2, task, task + 1, 3], ["<g>", None, "<g>", None, "<h>", "<g>"], [0, 0, 0, 0, 0, 1])
    assert in_places(rows, 7 << 40).column("offset").to_pylist() == [
        (7 << 40) + place for place in (0, 1, 0, 1 << 24, (1 << 24) + 1, 0)
    ]


@pytest.mark.parametrize("offset", [1 << 24, (1 << 16) << 33])
def test_more_rows_in_a_task_than_places_are_said(offset: int) -> None:
    """They would have the places of the next task's, and be the same elements."""
    in_places(unnumbered([offset - 1 if offset < 1 << 33 else offset - (1 << 33)], [None]), 0)
    with pytest.raises(RunError, match="16,777,216 elements"):
        in_places(unnumbered([offset], [None]), 0)
