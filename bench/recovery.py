"""``cqels-opt bench recovery``: the time from the start of a run after ``kill -9`` to its first committed batch.

The query is Q2 with windows of increasing length. The number of places increases with the length, so that the number of answers
per batch is constant and only the window's content grows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cqels_opt.bench import apart
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import STREAM, social
from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.errors import RunError
from cqels_opt.spark.load import load
from cqels_opt.spark.session import make_session
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.batch_size import BatchSize

WINDOWS = (30, 300, 900)  # seconds
RATE = 5_000
BATCH = 20  # seconds of the stream
AFTER = 3  # batches after the window is full; the run is killed when the last of them is committed
WRITTEN = "RANGE 30 seconds"


@dataclass(frozen=True, slots=True)
class Plan:
    """A run to be killed: its folder, and the size of its world."""

    folder: Path
    window: int
    rate: int
    authors: int

    @property
    def batches(self) -> int:
        """The number of micro-batches of the stream."""
        return -(-self.window // BATCH) + AFTER + 2

    @property
    def marks(self) -> Path:
        """The file in which a run records its progress."""
        return self.folder / "marks.jsonl"


def study(quick: bool) -> dict[str, Any]:
    """Seconds by length of the window; ``quick`` is a tenth of the rate and the shortest window."""
    progress, results = Console(stderr=True), []
    with scratch_folder() as scratch:
        for window in WINDOWS[:1] if quick else WINDOWS:
            part = 10 if quick else 1
            plan = Plan(scratch / str(window), window, RATE // part, 100_000 // part)
            progress.print(f"recovery: a window of {window:,} s")
            apart.wait(apart.start(make, plan))
            results.append(_killed(plan))
    return {"results": results}


def make(plan: Plan) -> None:
    """Creates the world and the query."""
    files = social(
        plan.folder,
        authors=plan.authors,
        coauthor_pairs=10 * plan.authors,
        places=max(2, plan.authors // 50) * plan.window // WINDOWS[0],
        elements=plan.rate * BATCH * plan.batches,
        rate=float(plan.rate),
        stream_format="parquet",
    )
    with make_session(None, plan.folder) as spark:
        load(spark, files.sources, plan.folder / "store", durable=False)
    text = (QUERIES / "q2.rq").read_text(encoding="utf-8")
    (plan.folder / "q2.rq").write_text(text.replace(WRITTEN, f"RANGE {plan.window} seconds"), encoding="utf-8")


def run(plan: Plan, began: float) -> None:
    """Runs the query from its last commit to its end; records when the session is ready and when each batch is committed."""

    def mark(what: str, batch: int | None = None) -> None:
        with plan.marks.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, "batch": batch, "seconds": time.time() - began}) + "\n")

    def watch(records: Sequence[TraceRecord]) -> None:
        mark("batch", records[0].batch)

    options = RunOptions(
        query=plan.folder / "q2.rq",
        streams=((STREAM, plan.folder / "stream.parquet"),),
        store=plan.folder / "store",
        batch=BatchSize(count=plan.rate * BATCH),
        out=plan.folder / "answers.jsonl",
    )
    with make_session(None, plan.folder) as spark:
        mark("session")
        in_session(spark, options, plan.folder / "state", watch)


def _killed(plan: Plan) -> dict[str, Any]:
    last = plan.batches - AFTER  # numbered from 0; two more batches follow
    process = apart.start(run, plan, time.time())
    while not any(m["what"] == "batch" and m["batch"] >= last for m in _marks(plan)):
        if not process.is_alive():
            raise RunError("the run ended before it could be killed")
        time.sleep(0.02)
    apart.kill(process)
    undisturbed = [m["seconds"] for m in _marks(plan) if m["what"] == "batch"]
    plan.marks.unlink()
    apart.wait(apart.start(run, plan, time.time()))
    marks = _marks(plan)
    session, first = marks[0]["seconds"], marks[1]["seconds"]
    state = sum(
        f.stat().st_size
        for part in ("slots", "results", "optimizer", "commits")
        for f in (plan.folder / "state" / part).glob("*")
    )
    return {
        "contender": "adaptive",
        "parameters": {"window": plan.window, "rows": plan.window * plan.rate, "elements a batch": plan.rate * BATCH},
        "process": session,
        "first batch": first - session,
        "usual batch": (undisturbed[-1] - undisturbed[0]) / (len(undisturbed) - 1),
        "again from batch": marks[1]["batch"],
        "state bytes": state,
    }


def _marks(plan: Plan) -> list[dict[str, Any]]:
    if not plan.marks.exists():
        return []
    lines = plan.marks.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def show(found: Mapping[str, Any]) -> None:
    """Prints one line per window."""
    parts = numbers("process and session", "to the first commit", "together", "a batch otherwise", "state (MB)")
    title = "Seconds from the start after kill -9 to the first committed batch"
    shown = table(*numbers("window (s)", "its rows"), *parts, title=title)
    for r in found["results"]:
        took = (r["process"], r["first batch"], r["process"] + r["first batch"], r["usual batch"])
        cells = (f"{r['parameters']['window']:,}", f"{r['parameters']['rows']:,}")
        shown.add_row(*cells, *(f"{s:,.1f}" for s in took), f"{r['state bytes'] / 1e6:,.0f}")
    console().print(shown)
