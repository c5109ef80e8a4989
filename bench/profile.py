"""``cqels-opt bench profile``: where the milliseconds of a micro-batch go, from Spark's progress reports and our own trace.

Spark's phases are those of its trigger; ``addBatch`` is the call of our function. Our phases are those of the trace record. What is
left of ``addBatch`` is the way between Spark's JVM and Python, and our commit record.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cqels_opt.bench.contenders import empty_folder, median
from cqels_opt.bench.scenarios import SCENARIOS, World
from cqels_opt.bench.screen import console
from cqels_opt.engine import Engine, make_driver, plan_mode
from cqels_opt.operators.driver import DriverOptions
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.session import SparkSession, make_session
from cqels_opt.spark.sinks import FileSink
from cqels_opt.spark.stream import StreamRun, chunk_stream
from cqels_opt.trace.records import read_trace
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.replay import ReplaySource, cut

SPARK = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
OURS = ("ingest", "statistics", "optimize", "execute", "commit")
COUNTED = 12


def study(quick: bool) -> dict[str, Any]:
    """The phases of Q1 and Q2 in batches of a second."""
    progress, results = Console(stderr=True), []
    scenario = replace(SCENARIOS["report"], counted=COUNTED)
    with tempfile.TemporaryDirectory(prefix="cqels-opt-bench-") as scratch:
        spark = make_session(None, Path(scratch))
        try:
            world = scenario.prepare(spark, Path(scratch) / "world", quick)
            for name in ("Q1", "Q2"):
                progress.print(f"profile: {name}")
                results.append(
                    {"query": name, **_phases(spark, scenario.queries[name], world, empty_folder(Path(scratch) / "run"))}
                )
        finally:
            spark.stop()
    return {"results": results}


def _phases(spark: SparkSession, text: Path, world: World, folder: Path) -> dict[str, Any]:
    plan = cut([ReplaySource(iri, (path,)) for iri, path in world.streams], folder / "replay", world.batch)
    query = Engine(spark, store=world.store, folder=folder / "registered").register(text.read_text(encoding="utf-8"))
    trace = folder / "trace.jsonl"
    sink, frontier = FileSink(folder / "answers.jsonl"), Frontier(query.program.streams)
    options = DriverOptions(plan=plan_mode("adaptive"))
    runner = SparkRunner(spark)
    driver = make_driver([query], folder, runner, sink, frontier, options, trace)
    run = StreamRun(driver, runner).start(chunk_stream(spark, plan.chunk_folder), folder / "spark", to_the_end=True)
    run.await_termination()
    reports = sorted(run.streaming_query.recentProgress, key=lambda p: int(p["batchId"]))[world.warm_up :]
    records = list(read_trace(trace))[world.warm_up :]
    return {
        "batches": len(reports),
        "jobs": max(r.jobs for r in records),
        "trigger": median([p["durationMs"]["triggerExecution"] for p in reports]),
        "spark": {phase: median([p["durationMs"].get(phase, 0) for p in reports]) for phase in SPARK},
        "ours": {phase: median([getattr(r.ms, phase) for r in records]) for phase in OURS},
    }


def show(found: Mapping[str, Any]) -> None:
    """A column a query; our phases are parts of ``addBatch``."""
    results = found["results"]
    table = Table("phase", title="Milliseconds of a micro-batch (medians)")
    for r in results:
        table.add_column(f"{r['query']} ({r['jobs']} jobs)", justify="right")
    table.add_row("the whole trigger", *(f"{r['trigger']:,.0f}" for r in results))
    for phase in SPARK:
        table.add_row(f"Spark: {phase}", *(f"{r['spark'][phase]:,.0f}" for r in results))
        if phase == "addBatch":
            for own in OURS:
                table.add_row(f"  ours: {own}", *(f"{r['ours'][own]:,.0f}" for r in results))
            rest = [r["spark"][phase] - sum(r["ours"].values()) for r in results]
            table.add_row("  the rest", *(f"{ms:,.0f}" for ms in rest))
    console().print(table)
