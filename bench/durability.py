"""Measures the cost of durable commits: ``python -m cqels_opt.bench.durability [BATCHES]``.

It times the calls that wait for the disk within the batches of one run, so that no two runs need to be compared on a machine with
varying load. Tasks on the driver's machine leave these calls to the driver, so all of them are measured.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from cqels_opt.bench.local import load, prepare
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.soak import BATCH as SMALL
from cqels_opt.bench.soak import QUERY, STREAM, World, run, write
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.spark.session import SparkSession, make_session
from cqels_opt.storage import disk
from cqels_opt.trace.records import TraceRecord
from cqels_opt.trace.writer import TraceFile
from cqels_opt.windows.batch_size import BatchSize

WAITING = ("flush", "sync", "sync_file_system")
FIRST = 10  # uncounted batches, in which caches fill

Seconds = dict[str, float]


@contextmanager
def timed() -> Iterator[Seconds]:
    """The accumulated seconds of calls, by name."""
    taken: Seconds = dict.fromkeys(WAITING, 0.0)

    def timing(name: str, call: Callable[[Any], None]) -> Callable[[Any], None]:
        def timed_call(of: Any) -> None:
            began = time.perf_counter()
            try:
                call(of)
            finally:
                taken[name] += time.perf_counter() - began

        return timed_call

    calls: dict[str, Any] = {name: timing(name, getattr(disk, name)) for name in WAITING}
    with patch.multiple(disk, **calls):
        yield taken


def alone(folder: Path, world: World, size: int) -> list[tuple[float, Seconds]]:
    """The seconds of each batch and of its calls, without Spark."""
    store = load(folder / "store", [StaticSource(world.static)])
    query = prepare("durability", QUERY, store, {STREAM: world.stream}, folder / "query", BatchSize(count=size))
    driver = query.driver(
        folder / "state", FileSink(folder / "answers.jsonl"), TraceFile(folder / "trace.jsonl", folder / "state")
    )
    found = []
    for number, rows in enumerate(query.chunks()):
        with timed() as taken:
            began = time.perf_counter()
            driver.batch(number, rows)
            found.append((time.perf_counter() - began, taken))
    return found


def on_spark(spark: SparkSession, folder: Path, world: World, size: int) -> list[tuple[float, Seconds]]:
    """The same through Spark, from the end of one batch to the end of the next."""
    found: list[tuple[float, Seconds]] = []
    with timed() as taken:
        at, before = time.perf_counter(), dict(taken)

        def watch(records: Sequence[TraceRecord]) -> None:
            nonlocal at, before
            now = time.perf_counter()
            found.append((now - at, {name: taken[name] - before[name] for name in WAITING}))
            at, before = now, dict(taken)

        run(spark, folder, world, size, watch)
    return found


def show(runs: dict[str, list[tuple[float, Seconds]]]) -> None:
    """Prints one row per run: the median batch, the median of each kind of call, and the share of all calls in all batches."""
    heads = numbers("batches", "batch, ms", *(f"{name}, ms" for name in WAITING), "of the time")
    shown = table("", *heads, title="what durability costs")
    for name, batches in runs.items():
        counted = batches[FIRST:]
        calls = [f"{1000 * median(taken[call] for _, taken in counted):.2f}" for call in WAITING]
        share = sum(sum(taken.values()) for _, taken in counted) / sum(seconds for seconds, _ in counted)
        batch = f"{1000 * median(seconds for seconds, _ in counted):.1f}"
        shown.add_row(name, str(len(counted)), batch, *calls, f"{100 * share:.1f} %")
    console().print(shown)


def main(batches: int) -> None:
    """Runs small and larger batches."""
    with tempfile.TemporaryDirectory(prefix="cqels-opt-durability-", dir=".") as scratch:
        folder, runs = Path(scratch).absolute(), {}
        for size in (SMALL, 50 * SMALL):
            of = batches if size == SMALL else max(FIRST + 10, batches // 4)
            world = write(folder / f"world-{size}", of * size // SMALL)
            runs[f"local, {size} elements"] = alone(folder / f"alone-{size}", world, size)
            with make_session("local[2]", folder) as spark:
                runs[f"Spark, {size} elements"] = on_spark(spark, folder / f"spark-{size}", world, size)
        show(runs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 200)
