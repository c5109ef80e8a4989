"""Folders whose names are patterns to Spark, next to folders that match the patterns."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import cqels_opt as cq
from cqels_opt.cli import commands
from cqels_opt.cli.main import main
from cqels_opt.spark.stream import folder_stream
from cqels_opt.state.source_log import files_of_batch

from .small_world import MET, write_query, write_world

NAMES = {"a[1]": "a1", "b{c,d}": "bc", "e*f": "exf", "g?": "gh", "i\\j": "ij", "k 100%25 #l": "k 100% #l", "m[n": "mn"}
"""Each with the name of a sibling that the pattern matches, or that matches a part of it."""


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_run_and_a_restart(name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoint, answers, streams and static files are in such a folder; the sibling has a checkpoint of other elements."""
    monkeypatch.setattr(commands, "open_session", lambda *_: nullcontext(spark))
    outs = {}
    for place, people in ((tmp_path / "plain", 60), (tmp_path / NAMES[name], 40), (tmp_path / name, 60)):
        files, out = write_world(place, people), place / "out.jsonl"
        words = ["run", str(write_query(place, MET)), *files.words, "--batch", "20"]
        words += ["--checkpoint", str(place / "checkpoint"), "--out", str(out)]
        assert main(words) == 0
        outs[place] = sorted(out.read_text().splitlines())
    assert outs[tmp_path / name] == outs[tmp_path / "plain"]
    assert outs[tmp_path / name] != outs[tmp_path / NAMES[name]]
    shutil.rmtree(tmp_path / NAMES[name] / "checkpoint")
    for note in ("2", ".2.crc"):  # as after a kill before Spark recorded the last batch
        (place / "checkpoint" / "spark" / "commits" / note).unlink()
    assert main(words) == 0
    assert sorted(out.read_text().splitlines()) == outs[tmp_path / name]


def test_live_folders(spark: SparkSession, tmp_path: Path) -> None:
    """Each stream has the files of its own folder."""
    for name in (*NAMES, *NAMES.values()):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.ndjson").write_text("x")
    found: dict[int, list[str]] = {}

    folders, checkpoint = [(number, tmp_path / name) for number, name in enumerate(NAMES)], tmp_path / "e*f" / "spark"

    def batch(frame: DataFrame, number: int) -> None:
        for stream, _, path in files_of_batch(checkpoint, number, tuple(range(len(NAMES)))):
            assert Path(path).read_text() == "x"
            found.setdefault(stream, []).append(Path(path).name)

    frame = folder_stream(spark, folders)
    query = frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    assert found == {number: [f"{name}.ndjson"] for number, name in enumerate(NAMES)}


@pytest.mark.long
@pytest.mark.parametrize("name", ["a[1]", "i\\j", "k 100%25 #l"])
def test_the_rows_of_an_adaptive_join(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """They are in the given state folder; those that no window needs are deleted, and a restart finds the others."""
    answers: list[tuple[int, int]] = []
    join = cq.AdaptiveJoin(spark).relation("here", window="now").relation("lately", window="10ms")
    join = join.on("here.x = lately.x").select("here.t AS t", "lately.t AS u")
    for number in range(6):
        function = join.batch(lambda df, _: answers.extend(tuple(row) for row in df.collect()), state=tmp_path / name)
        function(spark.createDataFrame([(1, 8 * number)], "x int, t long"), number)
    assert sorted(answers) == sorted([(8 * n, 8 * n) for n in range(6)] + [(8 * n, 8 * n - 8) for n in range(1, 6)])
    kept = sorted(path.name for path in (tmp_path / name / "rows").iterdir())
    assert kept[-1] == f"{5:012d}"
    assert len(kept) < 6
    assert [path.name for path in tmp_path.iterdir()] == [name]
