"""``python -m cqels_opt.bench.window_size``: the cost of a row as the windows grow.

Two windows of equal size over two streams are joined on one variable: each row that enters a window meets the rows of the other one with
its key. There are as many keys as rows, so that a row meets one other on average, whatever the size. Windows are filled in large batches;
then small batches of equal size are measured, in which as many rows enter as expire. The number of answers is compared with an
independent count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import compiled
from cqels_opt.bench.long_window import START, hashed, iris, named
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.errors import RunError
from cqels_opt.lod.build import build_store
from cqels_opt.planner.background_jobs import in_thread
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.evaluate import FinishReport
from cqels_opt.runtime.ingest import ROW_SCHEMA
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.windows.frontier import Frontier

SIZES = (10_000, 100_000, 1_000_000)
LARGEST = 10_000_000
FILL = 200_000
BATCH = 2_000
TIMED = 60
SPAN = 1_000_000
"""Milliseconds of a window, of any number of rows."""

QUERY = f"""
PREFIX : <http://example.org/>
SELECT ?a ?b
FROM NAMED :left [RANGE {SPAN} ms] AS ?left
FROM NAMED :right [RANGE {SPAN} ms] AS ?right
WHERE {{ GRAPH ?left {{ ?a :at ?x }} GRAPH ?right {{ ?b :at ?x }} }}
"""


def times(first: int, count: int, size: int) -> NDArray[np.int64]:
    """The times of rows; each window has ``size`` rows of its stream in :data:`SPAN`. Even rows are of the left stream."""
    number = np.arange(first, first + count, dtype=np.int64)
    return START + number * SPAN // (2 * size)


def keys(first: int, count: int, size: int) -> NDArray[np.uint64]:
    """The keys of rows."""
    return hashed(np.arange(first, first + count, dtype=np.uint64), 3) % np.uint64(size)


def elements(first: int, count: int, size: int) -> pa.Table:
    """Rows of both streams, in turn."""
    number = np.arange(first, first + count, dtype=np.uint64)
    side = (number % 2).astype(np.int64)
    columns: dict[str, Any] = {
        "stream": side.astype(np.int32),
        "partition": side.astype(np.int32),
        "offset": (number // 2).astype(np.int64),
        "s": iris("n", number),
        "p": named(["<http://example.org/at>"], np.zeros(count, np.int64)),
        "o": iris("x", keys(first, count, size)),
        "g": pa.nulls(count, pa.string()),
        "t": times(first, count, size),
        "late": np.zeros(count, bool),
        "line": number.astype(np.int64),
    }
    return pa.table(columns).cast(ROW_SCHEMA)


def expected(rows: int, size: int, upto: int) -> int:
    """The pairs of a left and a right row with equal keys whose times are less than :data:`SPAN` apart, none later than ``upto``."""
    number, t = np.arange(rows), times(0, rows, size)
    code = keys(0, rows, size).astype(np.int64) * (1 << 42) + (t - START)
    left, right = (number[(number % 2 == side) & (t <= upto)] for side in (0, 1))
    there = np.sort(code[right])
    found = np.searchsorted(there, code[left] + SPAN, "left") - np.searchsorted(there, code[left] - SPAN, "right")
    return int(found.sum())


class _CountingSink(LocalSink):
    """Counts answers, and keeps none."""

    rows = 0

    def put(self, batch: int, chunks: Any, folder: Path) -> dict[str, int]:
        """Counts."""
        reports: list[FinishReport] = [report for _, report in chunks]
        self.rows += sum(report.answers for report in reports)
        return {}


def measure(size: int, timed: int = TIMED) -> Mapping[str, Any]:
    """CPU and wall microseconds per row of batches over full windows; RunError if the number of answers is not that expected."""
    with scratch_folder("window-size") as folder:
        driver, sink = _driver(folder)
        number, at, cpu, wall = 0, 0, list[float](), list[float]()
        for count in _batches(size, timed):
            rows = elements(at, count, size)
            began, before = time.perf_counter(), time.process_time()
            driver.batch(number, rows)
            if at >= 2 * size:
                cpu.append(time.process_time() - before)
                wall.append(time.perf_counter() - began)
            number, at = number + 1, at + count
        driver.compaction.wait(60)
        answers = expected(at, size, driver.frontier.value)
        if sink.rows != answers:
            raise RunError(f"{sink.rows:,} answers instead of {answers:,}: this is a bug")
        return {
            "rows in a window": size,
            "cpu us a row": 1e6 * sum(cpu) / (len(cpu) * BATCH),
            "median cpu us a row": 1e6 * statistics.median(cpu) / BATCH,
            "median wall us a row": 1e6 * statistics.median(wall) / BATCH,
            "answers": sink.rows,
        }


def _batches(size: int, timed: int) -> Iterator[int]:
    left = 2 * size
    while left > 0:
        yield (count := min(FILL, left))
        left -= count
    yield from [BATCH] * timed


def _driver(folder: Path) -> tuple[Driver, _CountingSink]:
    build_store(
        folder / "store",
        iter([("<http://example.org/a>", "<http://example.org/b>", "<http://example.org/c>", None)]),
        durable=False,
    )
    program = compiled("q", QUERY, folder / "store", folder / "static")
    sink = _CountingSink()
    frontier = Frontier(program.streams)
    return Driver(folder / "state", [program], LocalRunner(), sink, frontier, DriverOptions(), compaction_start=in_thread), sink


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m cqels_opt.bench.window_size", description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"windows of up to {LARGEST:,} rows, which take minutes")
    parser.add_argument("--json", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    found = [measure(size) for size in (*SIZES, *([LARGEST] if given.full else []))]
    shown = table(
        *numbers(*found[0], "over the smallest"), title=f"Two windows joined on one variable, batches of {BATCH:,} rows"
    )
    for row in found:
        figures = (f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" for value in row.values())
        shown.add_row(*figures, f"{row['median cpu us a row'] / found[0]['median cpu us a row']:.2f}×")
    console().print(shown)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
