"""``cqels-opt bench``: runs scenarios, checks that all contenders give the same answers, and prints what each took."""

from __future__ import annotations

import json
import os
import pickle
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from cqels_opt.bench import (
    adaptive_join,
    apart,
    calibration,
    csrbench,
    drift,
    incremental,
    long_window,
    paced,
    physical_joins,
    profile,
    q_errors,
    recovery,
    skew,
    soak,
    stores,
    sub_results,
    throughput,
    w3c,
)
from cqels_opt.bench.contenders import CONTENDERS, Task, Timing, empty_folder, median
from cqels_opt.bench.scenarios import SCENARIOS, Scenario, World
from cqels_opt.bench.screen import console, table
from cqels_opt.errors import InputError, RunError
from cqels_opt.options import BenchOptions
from cqels_opt.spark.session import SETTINGS, SparkSession, make_session

JOIN_ORDERS = "join-orders"
MEMORY = "6g"  # of the JVM, for every contender alike


@dataclass(frozen=True, slots=True)
class Study:
    """What brings its own measurements, and its own way to show them."""

    title: str
    study: Callable[[bool], dict[str, Any]]
    show: Callable[[dict[str, Any]], None]


def _calibrated(quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="cqels-opt-bench-") as scratch:
        return calibration.study(Path(scratch), quick)


STUDIES = {
    "q-errors": Study("Estimated against observed rows, by kind of estimate", q_errors.study, q_errors.show),
    "drift": Study("Rows under drift, next to the best plans of each phase with hindsight", drift.study, drift.show),
    "skew": Study("Rows where one delta wants several plans", skew.study, skew.show),
    "sub-results": Study("A static join that pays for being made while a query runs", sub_results.study, sub_results.show),
    "incremental": Study("Operators above the joins while the window grows", incremental.study, incremental.show),
    "soak": Study("Thousands of small batches: memory, containers and files over time", soak.study, soak.show),
    "long-window": Study(
        "A window of an hour as it grows: time, memory, disk, and restarts after a kill", long_window.study, long_window.show
    ),
    "stores": Study("Static stores as they grow: load rate, size, time to open, probes", stores.study, stores.show),
    "adaptive-join": Study(
        "A Spark job that is not SPARQL under drift, next to adaptive execution and the CBO",
        adaptive_join.study,
        adaptive_join.show,
    ),
    "physical-joins": Study("Physical joins, forced and chosen", physical_joins.study, physical_joins.show),
    "calibration": Study(
        "Estimated next to measured seconds, with default and with measured constants", _calibrated, calibration.show
    ),
    "paced": Study("Latencies and batches while elements come in real time, next to a tuned Spark job", paced.study, paced.show),
    "throughput": Study("Elements a second of large batches, on one core and on two", throughput.study, throughput.show),
    "recovery": Study("Seconds from a restart after kill -9 to the first batch", recovery.study, recovery.show),
    "w3c": Study(
        "The W3C's SPARQL query tests, static and as a stream: what passes, and why the others do not", w3c.study, w3c.show
    ),
    "csrbench": Study(
        "CSRBench in three languages at every t0, next to what real engines answered", csrbench.study, csrbench.show
    ),
    "profile": Study("Where the milliseconds of a batch go", profile.study, profile.show),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What a contender took for a query: the batches after the warm-up count."""

    query: str
    contender: str
    timing: Timing
    counted: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A contender that did not come to its end with a query."""

    query: str
    contender: str
    why: str


def bench(options: BenchOptions) -> None:
    """Runs the scenarios that are named, all without names; prints a table each, and writes ``--json``."""
    titles = {
        **{name: scenario.title for name, scenario in SCENARIOS.items()},
        **{name: study.title for name, study in STUDIES.items()},
        JOIN_ORDERS: "Join orders next to DuckDB's",
    }
    if options.list:
        for name, title in titles.items():
            print(f"{name}: {title}")
        return
    names = options.scenarios or tuple(titles)
    for name in names:
        if name not in titles:
            raise InputError(f"there is no scenario {name!r}; there are {', '.join(titles)}")
    reports = [_report(name, options.quick) for name in names]
    if options.json:
        options.json.write_text(json.dumps(reports[0] if len(reports) == 1 else reports, indent=1), encoding="utf-8")


def _report(name: str, quick: bool) -> dict[str, Any]:
    if name == JOIN_ORDERS:
        return _join_orders(quick)
    return _study(name, STUDIES[name], quick) if name in STUDIES else _run(SCENARIOS[name], quick)


def _study(name: str, study: Study, quick: bool) -> dict[str, Any]:
    found = study.study(quick)
    study.show(found)
    return {**_circumstances("cqels-opt", "pyarrow", "numpy"), "scenario": name, "parameters": {"quick": quick}, **found}


def _join_orders(quick: bool) -> dict[str, Any]:
    try:
        from cqels_opt.bench.join_orders import show, study
    except ImportError as error:
        raise InputError(f"{JOIN_ORDERS} needs DuckDB: pip install 'cqels-opt[bench]'") from error
    found = study(50 if quick else 250)
    show(found)
    return {**_circumstances("cqels-opt", "duckdb", "numpy"), "scenario": JOIN_ORDERS, "parameters": {"quick": quick}, **found}


def _run(scenario: Scenario, quick: bool) -> dict[str, Any]:
    progress = Console(stderr=True)
    results: list[Result] = []
    failed: list[Failed] = []
    with tempfile.TemporaryDirectory(prefix="cqels-opt-bench-") as scratch:
        folder = Path(scratch)
        progress.print(f"{scenario.name}: making its data")
        apart.wait(apart.start(_prepare, folder, scenario, quick))
        world: World = pickle.loads((folder / "found").read_bytes())
        for name, query in scenario.queries.items():
            task = Task(query, world.streams, world.store, world.batch, world.folder)
            for contender in scenario.contenders:
                progress.print(f"{scenario.name}: {name} by {contender}")
                try:
                    apart.wait(apart.start(_contend, folder, contender, task))
                except RunError as error:  # of a rival: its JVM may have no room for what it makes
                    if contender == scenario.contenders[0]:
                        raise
                    failed.append(Failed(name, contender, str(error)))
                    progress.print(f"  {error}")
                    continue
                timing: Timing = pickle.loads((folder / "found").read_bytes())
                counted = timing.milliseconds[world.warm_up :] or timing.milliseconds
                results.append(Result(name, contender, timing, counted))
                progress.print(f"  {median(counted):,.0f} ms a batch, {timing.seconds:.0f} s in all")
            _check(name, [r for r in results if r.query == name])
    _show(scenario, world.description, results)
    return {**_as_json(scenario, quick, results), "failed": [asdict(one) for one in failed]}


def _prepare(folder: Path, scenario: Scenario, quick: bool) -> None:
    """Makes the data, in a process of its own; leaves where they are."""
    spark = _session(folder)
    (folder / "found").write_bytes(pickle.dumps(scenario.prepare(spark, folder / "world", quick)))
    spark.stop()


def _contend(folder: Path, contender: str, task: Task) -> None:
    """One contender and one query, in a JVM of their own, which has run a few batches before; leaves its timing."""
    spark = _session(folder)
    CONTENDERS["noop"](spark, task, empty_folder(folder / "run"))
    timing = CONTENDERS[contender](spark, task, empty_folder(folder / "run"))
    (folder / "found").write_bytes(pickle.dumps(timing))
    spark.stop()


def _session(folder: Path) -> SparkSession:
    SETTINGS["spark.driver.memory"] = MEMORY  # before the JVM starts
    return make_session(None, folder)


def _check(query: str, results: list[Result]) -> None:
    """No time is reported before all who answer have answered the same."""
    answering = [r for r in results if r.timing.digest is not None]
    for other in answering[1:]:
        if other.timing.digest != answering[0].timing.digest:
            raise RunError(
                f"{query}: {other.contender} gives other answers ({other.timing.answers}) than {answering[0].contender}"
                f" ({answering[0].timing.answers})"
            )


def _show(scenario: Scenario, description: str, results: list[Result]) -> None:
    shown = table(title=f"{scenario.title}\n{description}\nmedian milliseconds a batch (and relative to adaptive)")
    shown.add_column("query")
    for contender in scenario.contenders:
        shown.add_column(contender, justify="right")
    shown.add_column("answers", justify="right")
    for query in scenario.queries:
        mine = {r.contender: r for r in results if r.query == query}
        base = median(mine[scenario.contenders[0]].counted)
        took = {c: median(r.counted) for c, r in mine.items()}
        cells = [f"{took[c]:,.0f} ({took[c] / base:.2f}×)" if c in took else "failed" for c in scenario.contenders]
        shown.add_row(query, *cells, f"{mine[scenario.contenders[0]].timing.answers:,}")
    console().print(shown)
    for contender, settings in {r.contender: r.timing.settings for r in results if r.timing.settings}.items():
        print(f"{contender}: {', '.join(f'{name} = {value}' for name, value in settings)}")


def _circumstances(*packages: str) -> dict[str, Any]:
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "versions": {name: version(name) for name in packages},
    }


def _as_json(scenario: Scenario, quick: bool, results: list[Result]) -> dict[str, Any]:
    return {
        **_circumstances("cqels-opt", "pyspark", "pyarrow", "numpy"),
        "seed": scenario.seed,
        "scenario": scenario.name,
        "results": [
            {
                "contender": r.contender,
                "parameters": {"query": r.query, "quick": quick},
                "milliseconds": {
                    "median": median(r.counted),
                    "p95": sorted(r.counted)[min(len(r.counted) - 1, int(0.95 * len(r.counted)))],
                    "least": min(r.counted),
                    "most": max(r.counted),
                    "batches": len(r.counted),
                },
                "elements_per_second": 1000 * scenario.batch(quick) / median(r.counted),
                "answers": r.timing.answers,
                "verified": r.timing.digest is not None,
            }
            for r in results
        ],
    }
