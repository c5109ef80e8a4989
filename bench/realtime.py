"""``python -m cqels_opt.bench.realtime``: latencies of Q1 on the local engine, from a line of a file that grows to its answer.

A process of its own appends elements at a steady rate, each with the wall clock time at which it was due. An element's latency is the
time from then until its answers are in the file of answers, so a run that falls behind has all of the delay. Afterwards a replay of
the file by an engine that was not disturbed must have the same answers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.arguments import positive
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import PLACES_GRAPH, STREAM, social
from cqels_opt.errors import RunError
from cqels_opt.local.engine import CompiledQuery, Engine
from cqels_opt.local.inputs import Growing
from cqels_opt.local.run import LocalRun
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.query.durations import duration_of
from cqels_opt.runtime.evaluate_task import FinishReport
from cqels_opt.runtime.growing_files import GrowingFiles
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.runtime.local_runner import LocalRunner
from cqels_opt.runtime.registered_query import catalog_of
from cqels_opt.runtime.run_factory import external_streams, make_driver
from cqels_opt.runtime.run_state import COMMIT_EVERY, DriverOptions
from cqels_opt.windows.frontier import Frontier

AUTHORS, COAUTHOR_PAIRS, ELEMENTS = 2_000, 20_000, 2_000
WARM_UP = 3.0
"""Seconds whose elements are not counted: the first batches import modules and verify files."""
AT_ONCE = 0.001
"""Seconds between two writes of the process that appends."""


def append(source: Path, target: Path, rate: float, seconds: float) -> None:
    """Appends the triples of a stream to a file, in turn, with their times in real time."""
    triples = [{key: row[key] for key in "spo"} for row in map(json.loads, source.read_text(encoding="utf-8").splitlines())]
    began, written = time.time(), 0
    with target.open("a", encoding="utf-8") as file:
        while written < rate * seconds:
            due = min(int((time.time() - began) * rate), int(rate * seconds))
            times = [int(1000 * (began + number / rate)) for number in range(written, due)]
            file.writelines(json.dumps({**triples[n % len(triples)], "t": t}) + "\n" for n, t in enumerate(times, written))
            file.flush()
            written = due
            time.sleep(AT_ONCE)


class Timed(FileSink):
    """Notes when the answers of each time were in the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.latencies: list[NDArray[np.float64]] = []
        self.batches: list[float] = []

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Appends."""
        lengths = super().put(batch, chunks, folder)
        now = time.time()
        self.batches.append(now)
        self.latencies += [(1000 * now - report.times[:, 0]).astype(np.float64) for _, report in chunks if len(report.times)]
        return lengths


def measure(rate: float, seconds: float, commit_every: str) -> Mapping[str, Any]:
    """Latencies in milliseconds by percentile; RunError if the answers differ from those of a replay."""
    with scratch_folder("realtime") as folder:
        world = social(folder / "world", authors=AUTHORS, coauthor_pairs=COAUTHOR_PAIRS, elements=ELEMENTS)
        engine = Engine(static=folder / "world" / "static.nt", graphs={PLACES_GRAPH.strip("<>"): folder / "world" / "places.nt"})
        query = engine.register((QUERIES / "q1.rq").read_text(encoding="utf-8"))
        iri, live = STREAM.strip("<>"), folder / "live.ndjson"
        live.touch()
        sink = Timed(folder / "out.jsonl")
        run = _start(query, live, sink, folder / "state", commit_every)
        appending = ["--append", str(world.stream), str(live), str(rate), str(WARM_UP + seconds)]
        subprocess.run([sys.executable, "-m", "cqels_opt.bench.realtime", *appending], check=True)
        while run.is_active and live.stat().st_size > run.driver.state.lengths.get("bytes of 0", 0):
            time.sleep(0.01)
        run.stop()
        run.await_termination()
        found = np.concatenate(sink.latencies)
        last = sink.batches[-1]
        after = found[int(len(found) * WARM_UP / (WARM_UP + seconds)) :]
        replayed = folder / "replayed.jsonl"
        query.start({iri: live}, replayed, folder / "replay", batch=100_000).await_termination()
        lines, whole = (path.read_text(encoding="utf-8") for path in (folder / "out.jsonl", replayed))
        if not whole.startswith(lines) or not lines:
            raise RunError("the answers differ from those of a replay: this is a bug")
        return {
            "rate": rate,
            "seconds": seconds,
            "commit every": commit_every,
            "latency ms": {f"p{p:g}": round(float(np.percentile(after, p)), 1) for p in (50, 90, 99, 100)},
            "batches": len(sink.batches),
            "milliseconds a batch": round(1000 * (last - sink.batches[0]) / max(1, len(sink.batches) - 1), 1),
            "answers": lines.count("\n"),
            "load": round(os.getloadavg()[0], 1),
        }


def _start(query: CompiledQuery, live: Path, sink: FileSink, state: Path, commit_every: str) -> LocalRun:
    catalog, files = catalog_of([query], state), GrowingFiles([(0, live)])
    options = DriverOptions(skip_bad=True, files=files, commit_every=duration_of(commit_every, "commit_every") / 1000)
    driver = make_driver(catalog, state, LocalRunner(), sink, Frontier(external_streams(catalog)), options, None)
    return LocalRun(driver, Growing(driver, files)).start()


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m cqels_opt.bench.realtime", description=__doc__)
    parser.add_argument("--rate", type=positive, default=1_000, help="elements per second")
    parser.add_argument("--seconds", type=positive, default=20, help="seconds that are counted")
    parser.add_argument("--commit-every", default=f"{COMMIT_EVERY:g}s", help="time between two commit records")
    parser.add_argument("--append", nargs=4, metavar=("SOURCE", "TARGET", "RATE", "SECONDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.append:
        source, target, rate, seconds = given.append
        append(Path(source), Path(target), float(rate), float(seconds))
        return
    found = measure(given.rate, given.seconds, given.commit_every)
    latency = found["latency ms"]
    shown = table("", *numbers("elements/s", *latency, "ms per batch", "load"), title="Q1 on the local engine: latency in ms")
    shown.add_row(
        f"commits every {found['commit every']}", f"{found['rate']:,.0f}", *(f"{value:.1f}" for value in latency.values()),
        f"{found['milliseconds a batch']:.1f}", f"{found['load']:.1f}",
    )  # fmt: skip
    console().print(shown)


if __name__ == "__main__":
    main()
