"""``cqels-opt bench throughput``: Q1 and Q2 in large micro-batches at full speed, on one core and on two.

The stream's rate and the windows are unchanged (5,000 elements/s of stream time, 30 seconds); a batch covers more stream time.
The tasks write the answers as files of a folder. At one size the answers also go through the driver into one file of lines in order
of time. Each run is a separate process, pinned to its cores with all its descendants (``sched_setaffinity``), with as many task
slots. At the same size the tasks also run in executors of one core each, which are processes of their own, as on a cluster. An
estimate for a cluster is derived from the single-core runs (:mod:`cqels_opt.bench.cluster`).
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise, product
from pathlib import Path
from statistics import mean
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
from cqels_opt.errors import RunError
from cqels_opt.spark.session import make_session
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.batch_size import BatchSize

SIZES = (100_000, 500_000, 1_000_000)
ORDERED = 500_000  # elements of the batches whose answers are also written as one file, and that also run in executors
QUERIES = ("Q1", "Q2")
FOLDER, FILE = "folder", "file"
THREADS, EXECUTORS = "threads", "executors"
MASTERS = {THREADS: "local[{}]", EXECUTORS: "local-cluster[{},1,4096]"}
CORES = (1, 2)
LARGE = (1_000_000, 10_000_000, 50_000_000)  # elements per batch of a cluster
BATCHES = 6  # the first, which fills the window and starts Python, does not count
ROW_GROUP = 1 << 16


def study(quick: bool) -> dict[str, Any]:
    """Elements per second by query, batch size, output and cores; ``quick`` is the smallest size at a tenth of everything."""
    progress, results = Console(stderr=True), []
    part = 10 if quick else 1
    sizes = [size // part for size in (SIZES[:1] if quick else SIZES)]
    cases = [(size, FOLDER, THREADS) for size in sizes]
    if ORDERED in sizes:
        cases += [(ORDERED, FILE, THREADS), (ORDERED, FOLDER, EXECUTORS)]
    with scratch_folder() as folder:
        progress.print("throughput: making its data")
        apart.wait(apart.start(make, folder, BATCHES * max(sizes), quick))
        for query, (size, output, tasks), cores in product(QUERIES, cases, CORES):
            progress.print(
                f"throughput: {query}, {size:,} elements a batch, answers in a {output}, tasks in {tasks}, {cores} cores"
            )
            apart.wait(apart.start(run, folder, query, size, output, cores, tasks, cores=cores))
            results.append(json.loads((folder / "found.json").read_text(encoding="utf-8")))
    _check(results)
    return {"results": results, "cluster": [_estimated(query, results) for query in QUERIES]}


def _check(results: Sequence[Mapping[str, Any]]) -> None:
    """RunError unless all runs of a query over the same batches have the same number of answers."""
    counts: dict[tuple[str, int], set[int]] = {}
    for r in results:
        counts.setdefault((r["parameters"]["query"], r["parameters"]["elements a batch"]), set()).add(r["answers"])
    for (query, size), found in counts.items():
        if len(found) > 1:
            raise RunError(f"{query}, {size:,} elements a batch: runs give {sorted(found)} answers: this is a bug")


def _estimated(query: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Elements per second on a cluster, by batch size, from the single-core runs with answers in a folder."""
    wanted = {"query": query, "answers": FOLDER, "tasks": THREADS, "cores": CORES[0]}
    runs = [r for r in results if wanted.items() <= r["parameters"].items()]
    batches = [
        (r["parameters"]["elements a batch"], ms / 1000, spent["driver"])
        for r in runs
        for ms, spent in zip(r["milliseconds"], r["cpu seconds"])
    ]
    cost = cluster.fitted(*zip(*batches))
    many, one = Cluster(), Cluster(nodes=1)
    took = {size: cluster.seconds(cost, size, many) for size in LARGE}
    gains = {size: cluster.seconds(cost, size, one) / took[size] for size in LARGE}
    speeds = {size: size / took[size] for size in LARGE}
    return {
        "query": query,
        "cost": asdict(cost),
        "nodes": many.nodes,
        "cores": many.cores,
        "elements_per_second": speeds,
        "gain": gains,
    }


def make(folder: Path, elements: int, quick: bool) -> None:
    """The report's world with ``elements`` elements after those that fill the window."""
    with make_session("local[2]", folder) as spark:
        replace(REPORT, counted=-(-elements // REPORT.batch(quick))).prepare(spark, folder / "world", quick)


def run(folder: Path, query: str, size: int, output: str, cores: int, tasks: str = THREADS) -> None:
    """One run; writes its result to ``found.json``."""
    place, stream = empty_folder(folder / "run"), folder / "run" / "stream.parquet"
    parquet.write_table(
        parquet.read_table(folder / "world" / "stream.parquet").slice(0, BATCHES * size), stream, row_group_size=ROW_GROUP
    )
    text, store, batch = REPORT.queries[query], folder / "world" / "store", BatchSize(count=size)
    used: list[CpuSeconds] = []  # until the end of each batch

    def watch(_: Sequence[TraceRecord]) -> None:
        used.append(cpu_seconds(os.getpid()))

    out = {"out": place / "answers", "out_folder": True} if output == FOLDER else {}
    with make_session(MASTERS[tasks].format(cores), folder, works=False) as spark:  # as that of a run
        done, _ = run_on_spark(spark, text, [(STREAM, stream)], batch, place, place / "state", watch, store=store, **out)
    counted = done.milliseconds[1:BATCHES]
    spent = [CpuSeconds(*map(operator.sub, after, before)) for before, after in pairwise(used[: len(counted) + 1])]
    found = {
        "contender": "adaptive",
        "parameters": {"query": query, "elements a batch": size, "answers": output, "tasks": tasks, "cores": cores},
        "milliseconds": list(counted),
        "cpu seconds": [batch._asdict() for batch in spent],
        "elements_per_second": 1000 * size * len(counted) / sum(counted),
        "answers": done.summary.answers,
    }
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


def show(found: Mapping[str, Any]) -> None:
    """Prints one line per query, size and output: elements per second on each number of cores, and CPU seconds of each kind of process."""
    heads = [f"{cores} core{'s' * (cores > 1)}" for cores in CORES]
    which = ("query", "elements a batch", "answers in a", "tasks in")
    shown = table(*which, *heads, "gain", title="Elements a second of whole micro-batches, without the first")
    lines: dict[tuple[str, ...], dict[int, float]] = {}
    for r in found["results"]:
        lines.setdefault(_which(r), {})[r["parameters"]["cores"]] = r["elements_per_second"]
    for cells, speed in lines.items():
        gain = speed[CORES[-1]] / speed[CORES[0]]
        shown.add_row(*cells, *(f"{speed[cores]:,.0f}" for cores in CORES), f"{gain:.2f}×")
    console().print(shown)
    shown = table(*which, "cores", *CpuSeconds._fields, "driver, µs per row", title="CPU seconds per batch")
    for r in found["results"]:
        spent = {name: mean(batch[name] for batch in r["cpu seconds"]) for name in CpuSeconds._fields}
        row = 1e6 * spent["driver"] / r["parameters"]["elements a batch"]
        shown.add_row(*_which(r), str(r["parameters"]["cores"]), *(f"{used:.2f}" for used in spent.values()), f"{row:.2f}")
    console().print(shown)
    shown = table(
        "query", "seconds per batch", "µs per row", "µs per row on the driver", *(f"{size:,} a batch" for size in LARGE)
    )
    shown.title = "One core's costs, and elements per second on 50 nodes of 8 cores, as a multiple of one node (estimated)"
    for r in found["cluster"]:
        cost, speeds = r["cost"], zip(r["elements_per_second"].values(), r["gain"].values())
        costs = (f"{cost['fixed']:,.2f}", f"{1e6 * cost['row']:,.2f}", f"{1e6 * cost['driver']:,.2f}")
        shown.add_row(r["query"], *costs, *(f"{speed:,.0f} ({gain:.1f}×)" for speed, gain in speeds))
    console().print(shown)


def _which(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The query of a result, its batch size, its output, and what runs its tasks."""
    of = result["parameters"]
    return of["query"], f"{of['elements a batch']:,}", of["answers"], of["tasks"]
