"""``cqels-opt bench profile``: the milliseconds of a micro-batch by phase, from Spark's progress reports and our own trace.

Spark's phases are those of its trigger; ``addBatch`` is the call of our function. Our phases are those of the trace record. The
rest of ``addBatch`` is the transfer between Spark's JVM and Python, and our commit record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from cqels_opt.bench.apart import empty_folder, scratch_folder
from cqels_opt.bench.on_spark import run_on_spark
from cqels_opt.bench.report import REPORT, World
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.spark.session import SparkSession, make_session
from cqels_opt.trace.figures import plural

SPARK = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
OURS = ("ingest", "statistics", "optimize", "execute", "commit")
COUNTED = 12


def study(quick: bool) -> dict[str, Any]:
    """The phases of each query in batches of a second."""
    progress, results = Console(stderr=True), []
    scenario = replace(REPORT, counted=COUNTED)
    with scratch_folder() as scratch, make_session(None, scratch, works=False) as spark:
        world = scenario.prepare(spark, scratch / "world", quick)
        for name in scenario.queries:
            progress.print(f"profile: {name}")
            results.append({"query": name, **_phases(spark, scenario.queries[name], world, empty_folder(scratch / "run"))})
    return {"results": results}


def _phases(spark: SparkSession, text: Path, world: World, folder: Path) -> dict[str, Any]:
    done, records = run_on_spark(spark, text, world.streams, world.batch, folder, store=world.store)
    durations, records = done.durations[world.warm_up :], records[world.warm_up :]
    return {
        "batches": len(durations),
        "jobs": max(r.jobs for r in records),
        "trigger": median([ms["triggerExecution"] for ms in durations]),
        "spark": {phase: median([ms.get(phase, 0.0) for ms in durations]) for phase in SPARK},
        "ours": {phase: median([getattr(r.ms, phase) for r in records]) for phase in OURS},
    }


def show(found: Mapping[str, Any]) -> None:
    """Prints one column per query; our phases are parts of ``addBatch``."""
    results = found["results"]
    heads = numbers(*(f"{r['query']} ({plural(r['jobs'], 'job')})" for r in results))
    shown = table("phase", *heads, title="Milliseconds of a micro-batch (medians)")
    shown.add_row("the whole trigger", *(f"{r['trigger']:,.0f}" for r in results))
    for phase in SPARK:
        shown.add_row(f"Spark: {phase}", *(f"{r['spark'][phase]:,.0f}" for r in results))
        if phase == "addBatch":
            for own in OURS:
                shown.add_row(f"  ours: {own}", *(f"{r['ours'][own]:,.0f}" for r in results))
            rest = [r["spark"][phase] - sum(r["ours"].values()) for r in results]
            shown.add_row("  the rest", *(f"{ms:,.0f}" for ms in rest))
    console().print(shown)
