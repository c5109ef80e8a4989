"""``cqels-opt bench throughput``: Q1 and Q2 in large micro-batches at full speed, on one core and on two.

The stream's rate and the windows are unchanged (5,000 elements/s of stream time, 30 seconds); a batch covers more stream time.
Each run is a separate process, pinned to its cores with all its descendants (``sched_setaffinity``), with as many task slots. An
estimate for a cluster is derived from the single-core runs (:mod:`cqels_opt.bench.cluster`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
from rich.console import Console

from cqels_opt.bench import apart, cluster
from cqels_opt.bench.apart import empty_folder, scratch_folder
from cqels_opt.bench.circumstances import CpuSeconds, cpu_seconds
from cqels_opt.bench.cluster import Cluster
from cqels_opt.bench.on_spark import run_on_spark
from cqels_opt.bench.report import REPORT
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.social import STREAM
from cqels_opt.planner import calibration_store
from cqels_opt.spark.session import make_session
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.replay import BatchSize

SIZES = {"Q1": (100_000, 500_000, 1_000_000), "Q2": (100_000, 500_000)}
CORES = (1, 2)
LARGE = (1_000_000, 10_000_000, 50_000_000)  # elements per batch of a cluster
BATCHES = 4  # the first, which fills the window and starts Python, does not count
ROW_GROUP = 1 << 16


def study(quick: bool) -> dict[str, Any]:
    """Elements per second by query, batch size and cores; ``quick`` is the smallest size at a tenth of everything."""
    progress, results = Console(stderr=True), []
    part = 10 if quick else 1
    sizes = {query: tuple(size // part for size in (given[:1] if quick else given)) for query, given in SIZES.items()}
    with scratch_folder() as folder:
        longest = BATCHES * max(size for given in sizes.values() for size in given)
        progress.print("throughput: making its data")
        apart.wait(apart.start(make, folder, longest, quick))
        for query, given in sizes.items():
            for size in given:
                for cores in CORES:
                    progress.print(f"throughput: {query}, {size:,} elements a batch, {cores} cores")
                    apart.wait(apart.start(run, folder, query, size, cores, cores=cores))
                    results.append(json.loads((folder / "found.json").read_text(encoding="utf-8")))
    return {"results": results, "cluster": [_estimated(query, results) for query in sizes]}


def _estimated(query: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Elements per second on a cluster, by batch size, from the single-core runs."""
    single_core = [r for r in results if r["parameters"]["query"] == query and r["parameters"]["cores"] == CORES[0]]
    runs = [
        (r["parameters"]["elements a batch"], a / 1000, b / 1000)
        for r in single_core
        for a, b in zip(r["milliseconds"], r["driver ms"])
    ]
    cost = cluster.fitted(*zip(*runs))
    constants, many = calibration_store.known().constants, Cluster()
    speeds = {size: size / cluster.seconds(cost, size, many, constants, shuffled=size) for size in LARGE}
    return {"query": query, "cost": asdict(cost), "nodes": many.nodes, "cores": many.cores, "elements_per_second": speeds}


def make(folder: Path, elements: int, quick: bool) -> None:
    """The report's world with ``elements`` elements after those that fill the window."""
    with make_session("local[2]", folder) as spark:
        replace(REPORT, counted=-(-elements // REPORT.batch(quick))).prepare(spark, folder / "world", quick)


def run(folder: Path, query: str, size: int, cores: int) -> None:
    """One run; writes its result to ``found.json``."""
    place, stream = empty_folder(folder / "run"), folder / "run" / "stream.parquet"
    parquet.write_table(
        parquet.read_table(folder / "world" / "stream.parquet").slice(0, BATCHES * size), stream, row_group_size=ROW_GROUP
    )
    text, store, batch = REPORT.queries[query], folder / "world" / "store", BatchSize(count=size)
    used: list[CpuSeconds] = []  # until the end of each batch

    def watch(_: Sequence[TraceRecord]) -> None:
        used.append(cpu_seconds(os.getpid()))

    with make_session(f"local[{cores}]", folder, works=False) as spark:  # as that of a run
        done, records = run_on_spark(spark, text, [(STREAM, stream)], batch, place, place / "state", watch, store=store)
    counted = done.milliseconds[1:BATCHES]
    spent = [(after - before) / len(counted) for before, after in zip(used[0], used[len(counted)])]
    found = {
        "contender": "adaptive",
        "parameters": {"query": query, "elements a batch": size, "cores": cores},
        "milliseconds": list(counted),
        "driver ms": [r.ms.statistics + r.ms.optimize for r in records[1:BATCHES]],
        "cpu seconds a batch": CpuSeconds(*spent)._asdict(),
        "elements_per_second": 1000 * size * len(counted) / sum(counted),
        "answers": done.summary.answers,
    }
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


def show(found: Mapping[str, Any]) -> None:
    """Prints one line per query and size: elements per second on each number of cores, and CPU seconds of each kind of process."""
    heads = [f"{cores} core{'s' * (cores > 1)}" for cores in CORES]
    shown = table(
        "query", "elements a batch", *heads, "gain", title="Elements a second of whole micro-batches, without the first"
    )
    lines: dict[tuple[str, int], dict[int, float]] = {}
    for r in found["results"]:
        said = r["parameters"]
        lines.setdefault((said["query"], said["elements a batch"]), {})[said["cores"]] = r["elements_per_second"]
    for (query, size), speed in lines.items():
        gain = speed[CORES[-1]] / speed[CORES[0]]
        shown.add_row(query, f"{size:,}", *(f"{speed[cores]:,.0f}" for cores in CORES), f"{gain:.2f}×")
    console().print(shown)
    shown = table("query", "elements a batch", "cores", *CpuSeconds._fields, "driver, µs a row", title="CPU seconds a batch")
    for r in found["results"]:
        said, spent = r["parameters"], r["cpu seconds a batch"]
        row = 1e6 * spent["driver"] / said["elements a batch"]
        cells = (f"{spent[name]:.2f}" for name in CpuSeconds._fields)
        shown.add_row(said["query"], f"{said['elements a batch']:,}", str(said["cores"]), *cells, f"{row:.2f}")
    console().print(shown)
    shown = table("query", "seconds a batch", "µs a row", "µs a row on the driver", *(f"{size:,} a batch" for size in LARGE))
    shown.title = "One core's costs, and elements a second on 50 nodes of 8 cores (estimated)"
    for r in found["cluster"]:
        cost, speeds = r["cost"], r["elements_per_second"].values()
        costs = (f"{cost['fixed']:,.2f}", f"{1e6 * cost['row']:,.2f}", f"{1e6 * cost['driver']:,.2f}")
        shown.add_row(r["query"], *costs, *(f"{speed:,.0f}" for speed in speeds))
    console().print(shown)
