"""``cqels-opt bench adaptive-join``: the job of ``examples/`` under drift, compared with Spark's own optimizers.

Page views are joined with the viewer's followers and with the item's offers. In one phase the viewers are famous and few items
are on offer, in the next the opposite: the join order decides whether the first join produces millions of rows that the second
one drops. The contenders alternate on every micro-batch of one streaming job, over the same cached tables, so that other load on
the machine affects all of them; their answers are compared per batch before any time is shown.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from rich.console import Console

from cqels_opt.adaptive_join import AdaptiveJoin, JoinRun
from cqels_opt.bench import apart
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.rivals.jobs import PLANNER
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.errors import RunError
from cqels_opt.spark.session import SETTINGS, SparkSession, make_session, settings
from cqels_opt.spark.stream import DataFrame

SEED = 9
PHASES = 4
WARM_UP = 2
CHECK = ("count(*) AS n", "sum(CAST(hash(item, follower, offer) AS LONG)) AS h")
"""An order-independent digest of a batch's rows; computing it is every contender's sink."""

Batch: TypeAlias = Callable[[DataFrame, int], object]
Digest: TypeAlias = "tuple[int, int | None]"


@dataclass(frozen=True, slots=True)
class Size:
    """``famous`` people (items) have ``fanout`` followers (offers), ``ordinary`` ones one; batches per phase, views per batch."""

    famous: int
    fanout: int
    ordinary: int
    batches: int
    views: int
    matching: float = 0.02  # share of the views whose key on the ordinary side has a partner


FULL, QUICK = Size(200, 2_000, 600_000, 4, 2_000), Size(100, 1_000, 100_000, 2, 1_000)


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds and digests of the batches in order; the plans of ``adaptive`` by batch; the number of plan switches."""

    milliseconds: tuple[float, ...]
    digests: tuple[Digest, ...]
    plans: tuple[str, ...]
    switches: int | None


@dataclass(frozen=True, slots=True)
class Tables:
    """The static tables."""

    follows: DataFrame
    offers: DataFrame


# ------------------------------------------------------------------ data
def make(folder: Path, size: Size) -> None:
    """Writes the tables and the views, one file per micro-batch."""
    random = np.random.default_rng(SEED)
    for name, one, many in (("follows", "who", "follower"), ("offers", "item", "offer")):
        keys = np.concatenate([np.repeat(np.arange(size.famous), size.fanout), size.famous + np.arange(size.ordinary)])
        _write(folder / name / "part.parquet", {one: keys, many: random.integers(0, 1 << 40, len(keys))})
    for number in range(PHASES * size.batches):
        famous = random.integers(0, size.famous, size.views)
        ordinary = size.famous + random.integers(0, int(size.ordinary / size.matching), size.views)
        who, item = (famous, ordinary) if phase(number, size) == 0 else (ordinary, famous)
        path = folder / "views" / f"{number:04d}.parquet"
        _write(path, {"who": who, "item": item})
        os.utime(path, (number, number))  # Spark orders files by their times, which would be equal


def phase(number: int, size: Size) -> int:
    """The side that is famous in a batch: 0 the viewers, 1 the items."""
    return number // size.batches % 2


def _write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()}), path)


# ------------------------------------------------------------------ contenders
@dataclass(slots=True)
class Sink:
    """Collects the digest of each batch."""

    digests: list[Digest] = field(default_factory=list)

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Computes the rows of a batch and their digest."""
        found = rows.selectExpr(*CHECK).collect()[0]
        self.digests.append((found["n"], found["h"]))


def _plain(tables: Tables, sink: Sink, counted: bool = False, size: Size | None = None) -> Batch:
    """The plain job; with a ``size``, in the best join order of each phase.

    ``counted``: the views are persisted and counted first, because the cost-based optimizer otherwise has no statistics for them.
    """

    def batch(views: DataFrame, number: int) -> None:
        kept = views.persist() if counted else views
        if counted:
            kept.count()
        sides = [(tables.follows, "who"), (tables.offers, "item")]
        for other, key in reversed(sides) if size is not None and phase(number, size) == 0 else sides:
            views = views.join(other, key)
        sink(views, number)
        if counted:
            kept.unpersist()

    return batch


def _adaptive(tables: Tables, sink: Sink, plan: str) -> JoinRun:
    join = AdaptiveJoin(tables.follows.sparkSession).relation("views")
    join = join.relation("follows", tables.follows).relation("offers", tables.offers)
    join = join.on("views.who = follows.who AND views.item = offers.item")
    return join.select("views.item", "follows.follower", "offers.offer").batch(then=sink, plan=plan)


@dataclass(frozen=True, slots=True)
class Contender:
    """A job, and the number of settings of :data:`PLANNER`, adaptive execution first, that are on."""

    job: Callable[[Tables, Sink, Size], Batch]
    planner: int


CONTENDERS: Mapping[str, Contender] = {
    "adaptive": Contender(lambda tables, sink, size: _adaptive(tables, sink, "adaptive"), 1),
    "static": Contender(lambda tables, sink, size: _adaptive(tables, sink, "static"), 1),
    "as written": Contender(lambda tables, sink, size: _plain(tables, sink), 0),
    "AQE": Contender(lambda tables, sink, size: _plain(tables, sink), 1),
    "AQE and CBO": Contender(lambda tables, sink, size: _plain(tables, sink, counted=True), len(PLANNER)),
    "hindsight": Contender(lambda tables, sink, size: _plain(tables, sink, size=size), 1),
}
"""``hindsight`` is the plain job with adaptive execution and the best join order of each phase."""


@dataclass(slots=True)
class Turns:
    """A ``foreachBatch`` function in which the contenders alternate on every micro-batch, with a rotating start."""

    jobs: Mapping[str, Batch]
    batches: int
    milliseconds: dict[str, list[float]]
    plans: list[str] = field(default_factory=list)
    progress: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))

    def __call__(self, views: DataFrame, number: int) -> None:
        """Runs and times each contender on a batch."""
        names = [*self.jobs]
        for name in names[number % len(names) :] + names[: number % len(names)]:
            on = PLANNER[: CONTENDERS[name].planner]
            with settings(views.sparkSession, {setting: str(setting in on).lower() for setting in PLANNER}):
                begun = perf_counter()
                self.jobs[name](views, number)
                self.milliseconds[name].append(1000 * (perf_counter() - begun))
        adaptive = self.jobs["adaptive"]
        assert isinstance(adaptive, JoinRun)
        self.plans.append(adaptive.plans()["views"])
        taken = ", ".join(f"{name} {times[-1]:,.0f} ms" for name, times in self.milliseconds.items())
        self.progress.print(f"micro-batch {number + 1} of {self.batches}: {taken}", soft_wrap=True)


def _take_turns(folder: Path, size: Size) -> None:
    """Runs all contenders in this process with its own JVM, and writes the result."""
    SETTINGS["spark.driver.memory"] = "4g"  # before the JVM starts
    spark = make_session(None, folder)
    tables = Tables(*(_table(spark, folder / "data", name) for name in ("follows", "offers")))
    sinks = {name: Sink() for name in CONTENDERS}
    jobs = {name: contender.job(tables, sinks[name], size) for name, contender in CONTENDERS.items()}
    turns = Turns(jobs, PHASES * size.batches, {name: [] for name in CONTENDERS})
    views = spark.readStream.schema("who long, item long").option("maxFilesPerTrigger", 1)
    stream = views.parquet(str(folder / "data" / "views")).writeStream.foreachBatch(turns)
    stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    runs = {}
    for name, job in jobs.items():
        switches = job.switches if isinstance(job, JoinRun) else None
        runs[name] = Run(tuple(turns.milliseconds[name]), tuple(sinks[name].digests), tuple(turns.plans), switches)
    (folder / "found").write_bytes(pickle.dumps(runs))
    spark.stop()


def _table(spark: SparkSession, data: Path, name: str) -> DataFrame:
    """A static table, analysed and cached, the same for all contenders."""
    first = "who long, follower long" if name == "follows" else "item long, offer long"
    spark.sql(f"CREATE TABLE {name} ({first}) USING parquet LOCATION '{data / name}'")
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
    spark.sql(f"CACHE TABLE {name}")
    return spark.table(name)


# ------------------------------------------------------------------ the study
def study(quick: bool) -> dict[str, Any]:
    """Milliseconds per batch of each contender, after comparing the answers."""
    size = QUICK if quick else FULL
    with scratch_folder() as folder:
        make(folder / "data", size)
        apart.wait(apart.start(_take_turns, folder, size))
        runs: dict[str, Run] = pickle.loads((folder / "found").read_bytes())
    for contender, run in runs.items():
        if run.digests != runs["adaptive"].digests:
            raise RunError(f"{contender} gives other answers than adaptive; this is a bug")
    counted = {name: run.milliseconds[WARM_UP:] for name, run in runs.items()}
    base = sum(counted["adaptive"])
    return {
        "seed": SEED,
        "answers": [n for n, _ in runs["adaptive"].digests],
        "plans": list(runs["adaptive"].plans),
        "switches": runs["adaptive"].switches,
        "results": [
            {
                "contender": name,
                "milliseconds": {"median": median(ms), "total": sum(ms), "least": min(ms), "most": max(ms), "batches": len(ms)},
                "phases": [median(_of_phase(runs[name].milliseconds, which, size)) for which in (0, 1)],
                "over adaptive": sum(ms) / base,
                "verified": True,
            }
            for name, ms in counted.items()
        ],
    }


def _of_phase(milliseconds: tuple[float, ...], which: int, size: Size) -> list[float]:
    return [ms for number, ms in enumerate(milliseconds) if number >= WARM_UP and phase(number, size) == which]


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    title = "Milliseconds a micro-batch: median when viewers are famous, and when items are in demand; total of the counted"
    shown = table("contender", *numbers("viewers", "items", "total", "over adaptive"), title=title)
    for row in found["results"]:
        one, two = row["phases"]
        shown.add_row(
            row["contender"], f"{one:,.0f}", f"{two:,.0f}", f"{row['milliseconds']['total']:,.0f}", f"{row['over adaptive']:.2f}×"
        )
    screen = console()
    screen.print(shown)
    rows = sum(found["answers"])
    screen.print(f"adaptive changed its plan {found['switches']} times; all contenders gave the same answers, {rows:,} rows")
