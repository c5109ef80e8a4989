"""One job on two engines: it begins on the local engine, continues on Spark from the same checkpoint, and goes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cqels_opt.cli import commands, local_run
from cqels_opt.cli.options import RunOptions
from cqels_opt.errors import RunError
from cqels_opt.trace.records import TraceRecord, read_trace
from cqels_opt.windows.batch_size import BatchSize

from .small_world import MAP, MET, STREAM, rows, write_query, write_rows, write_world

ENGINES = ("local", "spark", "local", "local", "spark")
"""Three batches each: Spark and the local engine each continue a log of files that the other has compacted or not."""


class StopError(Exception):
    """Ends a run after one of its batches is committed, and before Spark has recorded that."""


def until(batch: int) -> Callable[..., None]:
    """Watches a run, and ends it after a batch."""

    def watch(records: list[TraceRecord]) -> None:
        if records[0].batch >= batch:
            raise StopError

    return watch


def ran(engine: str, spark: SparkSession, options: RunOptions, last: int | None) -> None:
    """Runs on an engine to the end, or until a batch."""
    watch = None if last is None else until(last)
    try:
        if engine == "local":
            local_run.run(options, watch)
        else:
            assert options.checkpoint is not None
            commands.in_session(spark, options, options.checkpoint, watch)
    except (StopError, RunError):
        assert last is not None


@pytest.mark.parametrize("live", [False, True], ids=["replay", "folder"])
def test_there_and_back(live: bool, spark: SparkSession, tmp_path: Path) -> None:
    files = write_world(tmp_path, 150)
    query, folder = write_query(tmp_path, MET), tmp_path / "live é 100%#[1]"
    folder.mkdir()
    calm = RunOptions(
        query=query, streams=((STREAM, files.stream),), static=(files.static,), graphs=((MAP, files.places),),
        batch=BatchSize(count=10), out=tmp_path / "calm.jsonl", checkpoint=tmp_path / "calm",
    )  # fmt: skip
    local_run.run(calm)
    moved = replace(calm, out=tmp_path / "out.jsonl", checkpoint=tmp_path / "c", trace=tmp_path / "t.jsonl")
    if live:
        moved = replace(moved, streams=((STREAM, folder),), batch=None, batch_bytes=1)
    written = rows(150)
    for turn, engine in enumerate(ENGINES):
        for number in range(3 * turn, 3 * turn + 3) if live else ():
            write_rows(tmp_path / "new", written[10 * number : 10 * number + 10])
            os.utime(tmp_path / "new", (1_000_000_000 + number, 1_000_000_000 + number))
            (tmp_path / "new").rename(folder / f"{number}.ndjson")
        last = turn == len(ENGINES) - 1
        ran(engine, spark, moved, None if last and not live else 3 * turn + 2)
    out, expected = moved.out, calm.out
    assert out is not None and expected is not None and moved.trace is not None
    lines, whole = out.read_text().splitlines(), expected.read_text().splitlines()
    assert lines == (whole[: len(lines)] if live else whole)  # a folder has no end, after which the latest instant is final
    assert len(lines) >= len(whole) - 20
    assert [record.batch for record in read_trace(moved.trace)] == list(range(15))
