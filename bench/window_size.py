"""``python -m cqels_opt.bench.window_size``: the cost of a row as the windows grow.

Windows of equal size over streams are joined: two on one variable (*pair*), or three in a row on two variables (*path*). There are as many
values of a variable as rows in a window, so that a row meets one row of the next window on average, whatever the size. In *hub* the first
two windows of a path have few values of their common variable, and hardly any row of the second window meets one of the third: a row of
the first then meets more rows in larger windows, and has no more answers.

Windows are filled in some hundred batches, which are larger for larger windows, so that there are as many slots as after a long run; then
small batches of equal size are measured, in which as many rows enter as expire. The number of answers is compared with an independent
count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.arguments import at_least
from cqels_opt.bench.local import compiled, joins_of
from cqels_opt.bench.long_window import START, hashed, iris, named
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.errors import RunError
from cqels_opt.lod.build import build_store
from cqels_opt.planner.background_jobs import in_thread
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.evaluate_task import FinishReport
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import Background, DriverOptions
from cqels_opt.trace.records import Delta
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

SIZES = (10_000, 100_000, 1_000_000)
LARGEST = 10_000_000
FILLING = 300
"""Batches, at most, that fill the windows."""
BATCH = 2_000
TIMED = 60
SPAN = 1_000_000
"""Milliseconds of a window, of any number of rows."""
HUBS = 100
"""Of *hub*: the values of the first common variable, and about how many rows of the last window may meet a row."""

Columns = NDArray[np.int64]


class Study(NamedTuple):
    """A query: the variables of its patterns, one over a window per pattern; neighbours have one in common."""

    patterns: tuple[tuple[str, str], ...]
    hub: bool = False

    @property
    def sizes(self) -> Sequence[int]:
        """The rows in a window that are measured; the work of *hub* grows with them."""
        return SIZES[: 2 if self.hub else None]

    @property
    def text(self) -> str:
        """The query, which has all variables that one pattern alone has."""
        every = [variable for pattern in self.patterns for variable in pattern]
        windows = [f"FROM NAMED :s{i} [RANGE {SPAN} ms] AS ?w{i}" for i in range(len(self.patterns))]
        groups = [f"GRAPH ?w{i} {{ ?{s} :at ?{o} }}" for i, (s, o) in enumerate(self.patterns)]
        selected = " ".join(f"?{variable}" for variable in every if every.count(variable) == 1)
        return f"PREFIX : <{EX}>\nSELECT {selected}\n" + "\n".join(windows) + f"\nWHERE {{ {' '.join(groups)} }}"

    def values(self, number: NDArray[np.uint64], pattern: int, variable: str, size: int) -> Columns:
        """The values of a variable in some rows of a pattern's stream."""
        if sum(variable in other for other in self.patterns) == 1:
            return number.astype(np.int64)
        first = variable in self.patterns[0]
        found = hashed(number, SALT[variable]) % np.uint64(HUBS if self.hub and first else size)
        if self.hub and pattern == len(self.patterns) - 1:
            found += np.where(hashed(number, 7) % np.uint64(size) < HUBS, np.uint64(0), np.uint64(size))
        return found.astype(np.int64)


EX = "http://example.org/"
SALT = {"x": 3, "y": 5}
STUDIES = {
    "pair": Study((("a", "x"), ("b", "x"))),
    "path": Study((("a", "x"), ("x", "y"), ("b", "y"))),
    "hub": Study((("a", "x"), ("x", "y"), ("b", "y")), hub=True),
}


def times(first: int, count: int, size: int, streams: int) -> Columns:
    """The times of rows; each window has ``size`` rows of its stream in :data:`SPAN`. Rows are of the streams in turn."""
    number = np.arange(first, first + count, dtype=np.int64)
    return START + number * SPAN // (streams * size)


def elements(study: Study, first: int, count: int, size: int) -> pa.Table:
    """Rows of all streams."""
    number, streams = np.arange(first, first + count, dtype=np.uint64), len(study.patterns)
    stream = (number % streams).astype(np.int64)
    terms = []
    for place in range(2):
        found: Any = pa.array([None] * count, pa.string())
        for i, pattern in enumerate(study.patterns):
            mine = stream == i
            values = study.values(number[mine], i, pattern[place], size).astype(np.uint64)
            found = pc.replace_with_mask(found, pa.array(mine), iris(pattern[place], values))
        terms.append(found)
    columns: dict[str, Any] = {
        "stream": stream.astype(np.int32),
        "partition": stream.astype(np.int32),
        "offset": (number // streams).astype(np.int64),
        "s": terms[0],
        "p": named([f"<{EX}at>"], np.zeros(count, np.int64)),
        "o": terms[1],
        "g": pa.nulls(count, pa.string()),
        "t": times(first, count, size, streams),
        "late": np.zeros(count, bool),
        "line": number.astype(np.int64),
    }
    return pa.table(columns).cast(ELEMENT_ROWS)


def expected(study: Study, rows: int, size: int, upto: int) -> int:
    """The answers: rows of all streams with equal values whose times are less than :data:`SPAN` apart, none later than ``upto``."""
    streams, every = len(study.patterns), times(0, rows, size, len(study.patterns))
    number, t = (column[every <= upto] for column in (np.arange(rows, dtype=np.uint64), every))
    mine = [number % np.uint64(streams) == i for i in range(streams)]
    first, last, found = t[mine[0]], t[mine[0]], number[mine[0]]
    for i, (before, pattern) in enumerate(pairwise(study.patterns), 1):
        (shared,) = {*before} & {*pattern}
        own, of_own = number[mine[i]], t[mine[i]]
        code = study.values(own, i, shared, size) * (1 << 42) + (of_own - START)
        order = np.argsort(code)
        base = study.values(found, i - 1, shared, size) * (1 << 42) - START
        begin = np.searchsorted(code[order], base + last - SPAN, "right")
        many = np.searchsorted(code[order], base + first + SPAN, "left") - begin
        if i == streams - 1:
            return int(many.sum())
        row = np.repeat(np.arange(len(found)), many)
        met = order[np.repeat(begin - (np.cumsum(many) - many), many) + np.arange(len(row))]
        first, last, found = np.minimum(first[row], of_own[met]), np.maximum(last[row], of_own[met]), own[met]
    raise AssertionError("a study joins at least two patterns")


class _CountingSink(LocalSink):
    """Counts answers, and keeps none."""

    rows = 0

    def put(self, batch: int, chunks: Any, folder: Path) -> dict[str, int]:
        """Counts."""
        reports: list[FinishReport] = [report for _, report in chunks]
        self.rows += sum(report.answers for report in reports)
        return {}


def measure(name: str, size: int, timed: int = TIMED) -> Mapping[str, Any]:
    """CPU microseconds of batches over full windows, and rows of joins, per row; RunError if the number of answers is not that expected."""
    study = STUDIES[name]
    with scratch_folder("window-size") as folder:
        driver, sink = _driver(study, folder)
        number, at, cpu, deltas = 0, 0, list[float](), list[Delta]()
        for count in _batches(len(study.patterns) * size, timed):
            rows = elements(study, at, count, size)
            before = time.process_time()
            records = driver.batch(number, rows)
            if at >= len(study.patterns) * size:
                cpu.append(time.process_time() - before)
                deltas += [delta for record in records for delta in record.deltas]
            number, at = number + 1, at + count
        driver.compaction.wait(60)
        answers = expected(study, at, size, driver.frontier.value)
        if sink.rows != answers:
            raise RunError(f"{sink.rows:,} answers instead of {answers:,}: this is a bug")
        joins = [operator for delta in deltas for operator in joins_of(delta)]
        touched = sum((one.observed or 0) - (one.spared or 0) + (one.looked_up or 0) for one in joins)
        return {
            "query": name,
            "rows in a window": size,
            "cpu us a row": 1e6 * sum(cpu) / (len(cpu) * BATCH),
            "median cpu us a row": 1e6 * statistics.median(cpu) / BATCH,
            "join us a row": 1e3 * sum(one.ms or 0 for one in joins) / (len(cpu) * BATCH),
            "rows of joins a row": touched / (len(cpu) * BATCH),
            "answers": sink.rows,
        }


def _batches(rows: int, timed: int) -> Iterator[int]:
    left = rows
    while left > 0:
        yield (count := min(max(BATCH, rows // FILLING), left))
        left -= count
    yield from [BATCH] * timed


def _driver(study: Study, folder: Path) -> tuple[Driver, _CountingSink]:
    build_store(
        folder / "store",
        iter([("<http://example.org/a>", "<http://example.org/b>", "<http://example.org/c>", None)]),
        durable=False,
    )
    program = compiled("q", study.text, folder / "store", folder / "static")
    sink = _CountingSink()
    frontier = Frontier(program.streams)
    return Driver(
        folder / "state", [program], LocalRunner(), sink, frontier, DriverOptions(), background=Background(compaction=in_thread)
    ), sink


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m cqels_opt.bench.window_size", description=__doc__)
    parser.add_argument("--query", choices=STUDIES, action="append", help="only these (pair, path and hub)")
    parser.add_argument(
        "--size", type=at_least(1), action="append", help=f"rows in a window (default {SIZES}; {LARGEST:,} take an hour)"
    )
    parser.add_argument("--json", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    found = [measure(name, size) for name in given.query or STUDIES for size in given.size or STUDIES[name].sizes]
    shown = table(*numbers(*found[0]), title=f"Windows that are joined, batches of {BATCH:,} rows")
    for row in found:
        shown.add_row(
            *(
                f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
                for value in row.values()
            )
        )
    console().print(shown)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
