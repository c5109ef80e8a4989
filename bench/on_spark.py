"""A run of the engine on Spark, as ``cqels-opt run`` starts it, with its answers and its trace in files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cqels_opt.cli.commands import FinishedRun, in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.spark.session import SparkSession
from cqels_opt.trace.progress import Watcher
from cqels_opt.trace.records import TraceRecord, read_trace
from cqels_opt.windows.batch_size import BatchSize


def run_on_spark(
    spark: SparkSession,
    query: Path,
    streams: Iterable[tuple[str, Path]],
    size: BatchSize,
    folder: Path,
    state: Path | None = None,
    watch: Watcher | None = None,
    **options: Any,
) -> tuple[FinishedRun, list[TraceRecord]]:
    """Writes ``trace.jsonl`` and, unless ``options`` name another output, ``answers.jsonl`` into ``folder``; returns the trace too.

    The state is in ``state`` or, by default, in ``folder``.
    """
    trace = folder / "trace.jsonl"
    options.setdefault("out", folder / "answers.jsonl")
    given = RunOptions(query, tuple(streams), batch=size, trace=trace, **options)
    return in_session(spark, given, state or folder, watch), list(read_trace(trace))
