"""The files of a batch, from the logs that Spark's file sources write: as Spark wrote them, and as Spark's own frame has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import RunError
from cqels_opt.spark.stream import folder_stream
from cqels_opt.state.source_log import NamedFile, SourceLog, files_of_batch

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def write_log(checkpoint: Path, offsets: list[list[str]], logs: list[dict[str, list[tuple[str, int]]]]) -> None:
    """``offsets`` has the lines of each batch; ``logs`` the entries (path, batch) of each source, by the name of the log's file."""
    (checkpoint / "offsets").mkdir(parents=True)
    for batch, lines in enumerate(offsets):
        (checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", METADATA, *lines]))
    for number, files in enumerate(logs):
        folder = checkpoint / "sources" / str(number)
        folder.mkdir(parents=True)
        for name, entries in files.items():
            lines = [f'{{"path":"{path}","timestamp":{1000 + batch},"batchId":{batch}}}' for path, batch in entries]
            (folder / name).write_text("\n".join(["v1", *lines]))


def test_each_source_is_read_up_to_its_own_position(tmp_path: Path) -> None:
    offsets = [['{"logOffset":0}', "-"], ['{"logOffset":2}', '{"logOffset":0}'], ['{"logOffset":2}', '{"logOffset":1}']]
    first = {"0": [("file:///a/1", 0)], "1": [("file:///a/2", 1)], "2": [("file:///a/3%20%25", 2), ("file:///a/4", 2)]}
    second = {"0": [("file:///b/1", 0)], "1": [("file:/b/2", 1)]}
    write_log(tmp_path, offsets, [first, second])
    assert files_of_batch(tmp_path, 0, (5, 7)) == [NamedFile(5, 1000, "/a/1")]
    assert files_of_batch(tmp_path, 1, (5, 7)) == [
        NamedFile(5, 1001, "/a/2"),
        NamedFile(5, 1002, "/a/3 %"),
        NamedFile(5, 1002, "/a/4"),
        NamedFile(7, 1000, "/b/1"),
    ]
    assert files_of_batch(tmp_path, 2, (5, 7)) == [NamedFile(7, 1001, "/b/2")]


@pytest.mark.parametrize("kept", [["0", "1"], []])
def test_a_compact_log_has_the_entries_of_the_files_before_it(kept: list[str], tmp_path: Path) -> None:
    """Spark deletes these files some minutes after it has written the compact one."""
    entries = [[(f"file:///a/{n}", n), (f"file:///a/{n}x", n)] for n in range(4)]
    log = {str(n): entries[n] for n in range(4) if str(n) in kept}
    log["2.compact"] = [entry for some in entries[:3] for entry in some]
    log["3"] = entries[3]
    write_log(tmp_path, [[f'{{"logOffset":{n}}}'] for n in range(4)], [log])
    for batch in range(4):
        found = files_of_batch(tmp_path, batch, (0,))
        assert [file.path for file in found] == [f"/a/{batch}", f"/a/{batch}x"]


def test_a_name_may_have_any_character(tmp_path: Path) -> None:
    """``str.splitlines`` ends lines at U+0085 and U+2028 as well."""
    (folder := tmp_path / "in").mkdir()
    names = [f"{number}-a\u2028b\u0085c.ndjson" for number in range(12)]  # the tenth entry is a compact file
    for batch, name in enumerate(names):
        (folder / name).write_text("{}")
        log = SourceLog(tmp_path / "checkpoint", [(0, folder)], 1 << 20)
        assert [file.path for file in log.files(batch) or ()] == [str(folder / name)]
        log.committed(batch)


def test_a_file_whose_name_is_not_utf8_waits_until_it_is_renamed(tmp_path: Path) -> None:
    (folder := tmp_path / "in").mkdir()
    wrong = folder / os.fsdecode(b"caf\xe9.nt")
    for path in (wrong, folder / "a.nt"):
        path.write_text("")
    log = SourceLog(tmp_path / "checkpoint", [(0, folder)], 1 << 20)
    assert [file.path for file in log.files(0) or ()] == [str(folder / "a.nt")]
    log.committed(0)
    assert log.files(1) is None
    wrong.rename(folder / "café.nt")
    assert [file.path for file in log.files(1) or ()] == [str(folder / "café.nt")]


@pytest.mark.parametrize("lines", [["{}"], ["-", "-"], ["nothing"]])
def test_a_log_of_another_form_is_named(lines: list[str], tmp_path: Path) -> None:
    write_log(tmp_path, [lines], [{}])
    with pytest.raises(RunError, match=r"the log of the Spark job cannot be read"):
        files_of_batch(tmp_path, 0, (0,))


@pytest.mark.long
def test_the_names_are_those_of_sparks_own_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Over more batches than Spark needs to compact its log."""
    folders = [(0, tmp_path / "one"), (1, tmp_path / "other one")]
    for _, folder in folders:
        folder.mkdir()
    batches: list[tuple[set[str], set[str]]] = []

    def batch(frame: DataFrame, number: int) -> None:
        named = files_of_batch(tmp_path / "spark", number, (0, 1))
        assert all(Path(file.path).parent == folders[file.stream][1] for file in named)
        assert all(Path(file.path).stat().st_mtime_ns // 1_000_000 == file.modified for file in named)
        batches.append(({Path(row["path"]).name for row in frame.collect()}, {Path(file.path).name for file in named}))

    writer = folder_stream(spark, folders, 1).writeStream.foreachBatch(batch)
    query = writer.option("checkpointLocation", str(tmp_path / "spark")).start()
    for number in range(12):
        for _, folder in folders[: 1 + number % 2]:
            (tmp_path / "new").write_text("x")
            (tmp_path / "new").rename(folder / f"{number} {len(batches)}ü%20.nt")
        query.processAllAvailable()
    query.stop()
    assert query.exception() is None
    assert [given for given, _ in batches] == [named for _, named in batches]
    assert len(batches) >= 12
    assert list((tmp_path / "spark" / "sources" / "0").glob("*.compact"))
