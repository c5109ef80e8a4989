"""A growing window: time, memory and disk per batch, and the time of a restart, while an hour of elements arrives.

The query joins who is where with earlier visits of acquaintances within an hour: a delta of a second probes the whole window. The
window is filled in large batches, because the state does not depend on how elements were batched: the time slices are the same
except for their boundaries. At each size the driver and its worker are killed (SIGKILL) and restarted; the first batch is timed
with the restart, then batches of a second are timed. Driver and worker are separate processes, as on Spark; stages are passed
between them without Spark.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.circumstances import megabytes
from cqels_opt.bench.local import compiled
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.lod.build import build_store
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner.background_jobs import in_thread
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.ingest import IngestReport, IngestTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import Background, DriverOptions
from cqels_opt.state.compaction import MergeResult, MergeTask
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

SEED = 1
RATE = 5_000  # elements per second
SIZES = (1_000_000, 5_000_000, 18_000_000)
FILL = 200_000
TIMED = 20
PEOPLE, PLACES, FRIENDS = 100_000, 1_000_000, 10
START = 1_198_800_000_000

QUERY = """
PREFIX : <http://example.org/>
SELECT ?a ?b ?x
FROM NAMED :at [NOW] AS ?now
FROM NAMED :at [RANGE 1 hour] AS ?hour
WHERE { GRAPH ?now { ?a :at ?x } GRAPH ?hour { ?b :at ?x } ?a :knows ?b }
"""


def elements(first: int, count: int) -> pa.Table:
    """``count`` elements from number ``first`` of the stream; deterministic for every partition into calls."""
    number = np.arange(first, first + count, dtype=np.uint64)
    person, place = (hashed(number, salt) % size for salt, size in ((1, PEOPLE), (2, PLACES)))
    columns: dict[str, Any] = {
        "stream": np.zeros(count, np.int32),
        "partition": np.zeros(count, np.int32),
        "offset": number.astype(np.int64),
        "s": iris("p", person),
        "p": named(["<http://example.org/at>"], np.zeros(count, np.int64)),
        "o": iris("x", place),
        "g": pa.nulls(count, pa.string()),
        "t": START + (number * np.uint64(1000) // np.uint64(RATE)).astype(np.int64),
        "late": np.zeros(count, bool),
        "line": number.astype(np.int64),
    }
    return pa.table(columns).cast(ELEMENT_ROWS)


def hashed(number: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """Pseudo-random numbers, one per number and salt."""
    x = number * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt * 0xD1B54A32D192ED03 & (1 << 64) - 1)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(32))


def iris(kind: str, numbers: NDArray[np.uint64]) -> pa.StringArray:
    """An IRI per number."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return named([f"<http://example.org/{kind}{i}>" for i in distinct.tolist()], inverse)


def named(terms: Sequence[str], which: NDArray[np.int64]) -> pa.StringArray:
    """The terms at these places."""
    places: pa.Int64Array = pa.array(which, pa.int64())
    return pa.array(terms, pa.string()).take(places)


# ------------------------------------------------------------------ two processes
class WorkerRunner:
    """Runs stages in a separate process, like an executor's Python."""

    parallelism = 1
    jobs = 0
    repeats, elsewhere = True, False

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, far = context.Pipe()
        self._busy = threading.Lock()  # the driver's merge thread also calls the worker
        self.process = context.Process(target=_serve, args=(far,), daemon=True)
        self.process.start()

    def begin(self, batch: int, queries: Sequence[str] = ()) -> None:
        """Does nothing."""

    def ingest(self, rows: pa.Table, task: IngestTask) -> list[IngestReport]:
        """The first stage."""
        found: list[IngestReport] = self.ask("ingest", rows, task)
        return found

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """The second stage, in one task."""
        found: StageReports = self.ask("evaluate", tasks, 1)
        return found

    def end(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing: the process is killed."""

    def merge(self, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        """Merges between two stages: there is only one worker."""
        found: list[MergeResult] = self.ask("merge", tasks)
        return found

    def ask(self, what: str, *arguments: Any) -> Any:
        """Sends a call to the worker, and waits for the result."""
        with self._busy:
            self._line.send((what, arguments))
            return self._line.recv()


def _serve(line: Any) -> None:
    runner = LocalRunner()
    while True:
        what, arguments = line.recv()
        line.send(usage() if what == "usage" else getattr(runner, what)(*arguments))


def usage() -> dict[str, float]:
    """Resident megabytes of this process, private and of mapped files (which processes share), and its CPU seconds so far."""
    return {"cpu": time.process_time(), "own": megabytes("RssAnon"), "mapped": megabytes("RssFile")}


@dataclass(frozen=True, slots=True)
class WorkerPair:
    """One pair of processes: restarts over the existing state, times batches, fills the window, and is killed."""

    folder: Path
    program: CompiledProgram
    begin: int
    end: int
    timed: int

    def run(self, answer: Any) -> None:
        """Reports its measurements, and is killed without cleanup."""
        began = time.perf_counter()
        runner = WorkerRunner()
        runner.ask("usage")
        found: dict[str, Any] = {"start": time.perf_counter() - began}
        began, before_restore = time.perf_counter(), _cpu(runner)
        stream = self.program.streams[0]
        frontier = Frontier((stream,))
        driver = Driver(
            self.folder,
            [self.program],
            runner,
            _DiscardingSink(),
            frontier,
            DriverOptions(),
            background=Background(compaction=in_thread),
        )
        found["restore"], before_first = time.perf_counter() - began, _cpu(runner) - before_restore
        seconds, cpu, phases = [], [], []
        at, number = self.begin, driver.state.batch + 1
        for _ in range(self.timed + 1 if at else 0):
            rows, before = elements(at, RATE), _cpu(runner)
            began = time.perf_counter()
            records = driver.batch(number, rows)
            seconds.append(time.perf_counter() - began)
            phases.append(records[0].ms)
            cpu.append(_cpu(runner) - before)
            at, number = at + RATE, number + 1
        if seconds:
            driver.compaction.wait(60)
            found |= {"first": seconds[0], "batches": seconds[1:], "cpu": [before_first + cpu[0], *cpu[1:]]}
            found |= {"driver": usage(), "worker": runner.ask("usage")}
            found["phases"] = {p: statistics.median(getattr(ms, p) for ms in phases[1:]) for p in phases[0].PHASES}
            found |= _state(driver, self.folder)
        while at < self.end:
            size = min(FILL, self.end - at)
            driver.batch(number, elements(at, size))
            at, number = at + size, number + 1
        answer.send(found | {"at": at})
        runner.process.kill()
        os.kill(os.getpid(), signal.SIGKILL)


def _cpu(runner: WorkerRunner) -> float:
    """CPU seconds of both processes so far: the cost of a batch independent of other load."""
    spent: float = time.process_time() + runner.ask("usage")["cpu"]
    return spent


class _DiscardingSink(LocalSink):
    """Discards answers."""

    def put(self, batch: int, chunks: Any, folder: Path) -> dict[str, int]:
        """Stores nothing."""
        return {}


def _state(driver: Driver, folder: Path) -> dict[str, Any]:
    files = driver.state.files
    kinds = sorted({f.kind for f in files})
    return {
        "rows": sum(f.rows for f in files if f.kind in ("segment", "slot")),
        "files": {kind: sum(f.kind == kind for f in files) for kind in kinds},
        "disk": {kind: sum((folder / f.path).stat().st_size for f in files if f.kind == kind) / 1e6 for kind in kinds},
        "optimizer": (folder / driver.state.optimizer).stat().st_size / 1e6,
        "record": (folder / "commits" / f"{driver.state.batch:012d}.json").stat().st_size / 1e3,
    }


def study(quick: bool) -> dict[str, Any]:
    """One row per size of the window. ``quick`` is a tenth of everything."""
    scale = 10 if quick else 1
    sizes = [size // scale for size in SIZES]
    with scratch_folder("long-window") as folder:
        program, progress = _compiled(folder), Console(stderr=True)
        found, at = [], 0
        for size in (*sizes, 0):
            life = _run_pair(WorkerPair(folder / "state", program, at, size, TIMED))
            if at:
                found.append(life)
                took = 1000 * statistics.median(life["batches"])
                progress.print(
                    f"{life['rows']:,} rows: {took:,.0f} ms per batch, restart {life['restore'] + life['first']:.1f} s"
                )
            at = life["at"]
    return {"seed": SEED, "rate": RATE, "fill": FILL, "sizes": sizes, "results": found}


def _compiled(folder: Path) -> CompiledProgram:
    rng = np.random.default_rng(SEED)
    pairs = zip(np.repeat(np.arange(PEOPLE), FRIENDS).tolist(), rng.integers(0, PEOPLE, PEOPLE * FRIENDS).tolist())
    iri = "<http://example.org/{}>".format
    build_store(folder / "store", ((iri(f"p{a}"), iri("knows"), iri(f"p{b}"), None) for a, b in pairs), durable=False)
    return compiled("q", QUERY, folder / "store", folder / "static")


def _run_pair(pair: WorkerPair) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    answer, far = context.Pipe(duplex=False)
    process = context.Process(target=pair.run, args=(far,))
    process.start()
    far.close()
    measured: dict[str, Any] = answer.recv()
    process.join()
    return measured


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    heads = numbers(
        "rows in the window", "a batch", "its CPU", "restart", "its CPU", "driver", "worker", "mapped by it", "disk", "segments"
    )
    title = f"A window of an hour at {found['rate']:,} elements/s, batches of a second; the processes' own memory"
    shown = table(*heads, title=title)
    for row in found["results"]:
        batch = 1000 * statistics.median(row["batches"])
        restart = 1000 * (row["restore"] + row["first"])
        shown.add_row(
            f"{row['rows']:,}",
            f"{batch:,.0f} ms",
            f"{1000 * statistics.median(row['cpu'][1:]):,.0f} ms",
            f"{restart:,.0f} ms",
            f"{1000 * row['cpu'][0]:,.0f} ms",
            f"{row['driver']['own']:,.0f} MB",
            f"{row['worker']['own']:,.0f} MB",
            f"{row['worker']['mapped']:,.0f} MB",
            f"{sum(row['disk'].values()):,.0f} MB",
            str(row["files"].get("segment", 0)),
        )
    console().print(shown)
