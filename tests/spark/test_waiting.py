"""Which files of live folders wait, and how the elements of read files are numbered: without a session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from cqels_opt.errors import CheckpointError, RunError
from cqels_opt.rdf.ids import PUBLIC
from cqels_opt.runtime.files_read import FilesRead
from cqels_opt.runtime.ingest import IngestReport, IngestTask, RejectSpool
from cqels_opt.runtime.live_files import FileReading, read_files
from cqels_opt.spark.files import in_places
from cqels_opt.state.source_log import NamedFile
from cqels_opt.windows.admission import Admission
from cqels_opt.windows.element_rows import ELEMENT_ROWS

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


def named(paths: list[Path]) -> list[NamedFile]:
    """The names that Spark's file source gives them."""
    return [NamedFile(0, path.stat().st_mtime_ns // 1_000_000, str(path)) for path in paths]


def named_read(paths: list[Path]) -> IngestReport:
    return IngestReport(files_read=[(0, path.name, path.stat().st_size) for path in paths])


def files_read(tmp_path: Path) -> FilesRead:
    found = FilesRead([(0, tmp_path / "live")], tmp_path)
    found.restore({})
    return found


def test_files_that_nobody_has_read_wait(tmp_path: Path) -> None:
    paths = some_files(tmp_path / "live", 4)
    files = files_read(tmp_path)
    for brought, waiting in ((paths[:1], 3), (paths[1:3], 1), ([], 1)):
        assert (files.take([named_read(brought)]), files.waiting) == ([], waiting)
    paths[3].unlink()
    assert (files.take([]), files.waiting) == ([], 0)


def test_files_that_have_just_gone_wait_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files may be deleted at any moment, also between listing the folder and reading a file's status."""
    paths = some_files(tmp_path / "live", 4)
    files, brought = files_read(tmp_path), named_read(paths[:1])
    entries = os.scandir

    @contextmanager
    def listed(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with entries(folder) as found:
            there = list(found)
        paths[2].unlink()
        yield iter(there)

    monkeypatch.setattr(os, "scandir", listed)
    assert (files.take([brought]), files.waiting) == ([], 2)


def test_a_file_that_grows_after_it_was_read_is_named_once(tmp_path: Path) -> None:
    paths = some_files(tmp_path / "live", 3)
    files = files_read(tmp_path)
    assert files.take([named_read(paths)]) == []
    committed = files.put()
    size = paths[1].stat().st_size
    with paths[1].open("a") as file:
        file.write("{}\n")
    said = [
        f"{paths[1]} has changed since it was read ({size} bytes then, {size + 3} now), and is not read again: "
        "write files elsewhere and rename them into the folder, each under a new name"
    ]
    assert files.take([]) == said
    assert files.changed() == []
    again = FilesRead([(0, tmp_path / "live")], tmp_path)
    again.restore(committed)  # the batch that named it was not committed, and is repeated
    assert again.take([]) == said
    committed = again.put()
    again.restore(committed)
    assert (again.take([]), again.waiting) == ([], 0)


def test_a_file_whose_name_is_not_utf8_is_named_once(tmp_path: Path) -> None:
    (path,) = some_files(tmp_path / "live", 1)
    path.rename(wrong := path.with_name(os.fsdecode(b"caf\xe9.ndjson")))
    files = files_read(tmp_path)
    assert files.take([]) == [rf"{tmp_path / 'live'}: b'caf\xe9.ndjson': the name is not UTF-8: rename it"]
    assert (files.take([]), files.waiting) == ([], 1)
    wrong.rename(path)
    assert (files.take([named_read([path])]), files.waiting) == ([], 0)


@pytest.mark.parametrize("damage", [b"", b'[0, "0.ndjson"]\n' + b" " * 200, b"\xff" * 200])
def test_a_damaged_record_of_files_is_named(damage: bytes, tmp_path: Path) -> None:
    paths = some_files(tmp_path / "live", 3)
    files = files_read(tmp_path)
    files.take([named_read(paths)])
    committed = files.put()
    files.path.write_bytes(damage)
    with pytest.raises(CheckpointError, match=r"files\.jsonl: the checkpoint is damaged"):
        FilesRead([(0, tmp_path / "live")], tmp_path).restore(committed)


TASK = IngestTask("", 7, (STREAM,), (), "", PUBLIC, 0, frozenset())


def test_elements_are_numbered_on(tmp_path: Path) -> None:
    """Across batches and files, for any number of elements."""
    paths = some_files(tmp_path / "live", 3)
    paths[2] = paths[2].rename(tmp_path / "live" / "2 100%25#?.ndjson")  # Hadoop writes names as they are
    found, _, read = read_files(named(paths[1:]), FileReading(Admission(), {0: 5}, ""), TASK, RejectSpool())
    assert found.column("offset").to_pylist() == list(range(5, 15))
    assert read == named_read(paths[1:]).files_read


def test_an_element_of_the_year_9999_is_rejected_alone(tmp_path: Path) -> None:
    """All of its rows, in a file with valid ones; the rule also holds across files and batches."""
    folder = tmp_path / "live"
    folder.mkdir()
    row = '{{"s": "<a:s>", "p": "<a:p>", "o": "\\"{}\\"", "g": "<a:g{}>", "t": {}}}\n'
    far = 253_402_300_799_000
    told = [[(1, 1000), (2, far), (2, far), (3, 2000)], [(4, 9_000_000)], [(5, 9_000_500), (6, 9_001_000)]]
    paths = [folder / f"{n}.ndjson" for n in range(3)]
    for n, (path, lines) in enumerate(zip(paths, told)):
        path.write_text("".join(row.format(k, g, t) for k, (g, t) in enumerate(lines)))
        os.utime(path, (SECOND + n, SECOND + n))
    admission = Admission(max_ahead=3_600_000)
    rejected = RejectSpool()
    table, judged, _ = read_files(named(paths[:2]), FileReading(admission, {}, ""), TASK, rejected)
    assert table.column("t").to_pylist() == [1000, 2000]
    assert [(r.line, r.reason[:66]) for r in rejected] == [
        (2, "0.ndjson: t is 9999-12-31T23:59:59.000Z, more than the maximum of "),
        (1, "1.ndjson: t is 1970-01-01T02:30:00.000Z, more than the maximum of "),
    ]
    assert (judged[0].greatest, judged[0].suspect) == (2000, 9_000_000)
    table, judged, _ = read_files(named(paths[2:]), FileReading(admission.after(judged), {}, ""), TASK, rejected)
    assert table.column("t").to_pylist() == [9_000_500, 9_001_000]  # the stream's time has advanced
    assert (judged[0].suspect, len(rejected)) == (None, 2)


# ------------------------------------------------------------------ elements without numbers
def unnumbered(offsets: list[int], graphs: list[str | None], streams: list[int] | None = None) -> pa.Table:
    size = len(offsets)
    columns = {"stream": streams or [0] * size, "partition": [0] * size, "offset": offsets, "g": graphs, "t": [1] * size}
    fixed = {"s": ["<s>"] * size, "p": ["<p>"] * size, "o": ["<o>"] * size, "late": [False] * size, "line": offsets}
    return pa.Table.from_pydict({**columns, **fixed}, ELEMENT_ROWS)


def test_places_tell_all_elements_apart() -> None:
    """By their task, the row in it, and the full name of their graph."""
    task = 1 << 33
    rows = unnumbered([0, 1, 2, task, task + 1, 3], ["<g>", None, "<g>", None, "<h>", "<g>"], [0, 0, 0, 0, 0, 1])
    assert in_places(rows, 7 << 40).column("offset").to_pylist() == [
        (7 << 40) + place for place in (0, 1, 0, 1 << 24, (1 << 24) + 1, 0)
    ]


@pytest.mark.parametrize("offset", [1 << 24, (1 << 16) << 33])
def test_more_rows_in_a_task_than_places_are_said(offset: int) -> None:
    """They would have the positions of the next task's rows, and be the same elements."""
    in_places(unnumbered([offset - 1 if offset < 1 << 33 else offset - (1 << 33)], [None]), 0)
    with pytest.raises(RunError, match="16,777,216 elements"):
        in_places(unnumbered([offset], [None]), 0)
