"""``cqels-opt bench adaptive-join``: the job of ``examples/`` under drift, next to Spark's adaptive execution and cost-based optimizer.

Page views are joined with who follows the viewer and with what is on offer for the item. In one phase the viewers are famous and few of
the items are on offer, in the next it is the other way round: what is joined first decides whether millions of rows are made that the
second join throws away. Every contender has a JVM of its own, the same cached tables and the same micro-batches, and its answers are
compared batch by batch before a time is shown.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from rich.console import Console

from cqels_opt.adaptive_join import AdaptiveJoin, JoinRun
from cqels_opt.bench import apart
from cqels_opt.bench.apart import empty_folder
from cqels_opt.bench.rivals.jobs import PLANNER
from cqels_opt.bench.screen import console, table
from cqels_opt.errors import RunError
from cqels_opt.spark.session import SETTINGS, SparkSession, make_session
from cqels_opt.spark.stream import DataFrame, trigger_milliseconds

SEED = 9
PHASES = 4
WARM_UP = 2
AQE = PLANNER[:1]
CHECK = ("count(*) AS n", "sum(CAST(hash(item, follower, offer) AS LONG)) AS h")
"""A digest of a batch's rows, in any order; computing it is every contender's sink."""

Batch = Callable[[DataFrame, int], object]


@dataclass(frozen=True, slots=True)
class Size:
    """``famous`` people (and items) have ``fanout`` followers (offers) each, ``ordinary`` ones one; batches a phase, views a batch."""

    famous: int
    fanout: int
    ordinary: int
    batches: int
    views: int
    matching: float = 0.02  # of the ordinary side: how many views have a partner at all


FULL, QUICK = Size(200, 2_000, 600_000, 4, 2_000), Size(50, 400, 20_000, 2, 500)


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds and digests of the batches in order; of an adaptive one its plans by batch, and how often these changed."""

    milliseconds: tuple[float, ...]
    digests: tuple[tuple[int, int | None], ...]
    plans: tuple[str, ...] = ()
    switches: int | None = None


# ------------------------------------------------------------------ data
def make(folder: Path, size: Size) -> None:
    """The tables and the views, a file a micro-batch."""
    random = np.random.default_rng(SEED)
    for name, one, many in (("follows", "who", "follower"), ("offers", "item", "offer")):
        keys = np.concatenate([np.repeat(np.arange(size.famous), size.fanout), size.famous + np.arange(size.ordinary)])
        _write(folder / name / "part.parquet", {one: keys, many: random.integers(0, 1 << 40, len(keys))})
    for number in range(PHASES * size.batches):
        famous = random.integers(0, size.famous, size.views)
        ordinary = size.famous + random.integers(0, int(size.ordinary / size.matching), size.views)
        who, item = (famous, ordinary) if phase(number, size) == 0 else (ordinary, famous)
        _write(folder / "views" / f"{number:04d}.parquet", {"who": who, "item": item})


def phase(number: int, size: Size) -> int:
    """Which side is famous in a batch: 0 the viewers, 1 the items."""
    return number // size.batches % 2


def _write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()}), path)


# ------------------------------------------------------------------ contenders
@dataclass(slots=True)
class Sink:
    """Takes the digest of each batch."""

    digests: dict[int, tuple[int, int | None]]

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Computes the rows of a batch."""
        found = rows.selectExpr(*CHECK).collect()[0]
        self.digests[number] = (found["n"], found["h"])


def _plain(
    follows: DataFrame, offers: DataFrame, sink: Sink, settings: tuple[str, ...], counted: bool, size: Size | None
) -> Batch:
    """The job as it is written; with a ``size`` in the order that is the right one for each phase."""

    def batch(views: DataFrame, number: int) -> None:
        for name in settings:
            views.sparkSession.conf.set(name, "true")
        kept = views.persist() if counted else views
        if counted:
            kept.count()
        sides = [(follows, "who"), (offers, "item")]
        for other, key in reversed(sides) if size is not None and phase(number, size) == 0 else sides:
            views = views.join(other, key)
        sink(views, number)
        if counted:
            kept.unpersist()

    return batch


def _adaptive(spark: SparkSession, follows: DataFrame, offers: DataFrame, sink: Sink, plan: str) -> JoinRun:
    join = AdaptiveJoin(spark).relation("views").relation("follows", follows).relation("offers", offers)
    join = join.on("views.who = follows.who AND views.item = offers.item")
    return join.select("views.item", "follows.follower", "offers.offer").batch(then=sink, plan=plan)


CONTENDERS: Mapping[str, Callable[[SparkSession, DataFrame, DataFrame, Sink, Size], Batch]] = {
    "adaptive": lambda spark, follows, offers, sink, size: _adaptive(spark, follows, offers, sink, "adaptive"),
    "static": lambda spark, follows, offers, sink, size: _adaptive(spark, follows, offers, sink, "static"),
    "as written": lambda spark, follows, offers, sink, size: _plain(follows, offers, sink, (), False, None),
    "AQE": lambda spark, follows, offers, sink, size: _plain(follows, offers, sink, AQE, False, None),
    "AQE and CBO": lambda spark, follows, offers, sink, size: _plain(follows, offers, sink, PLANNER, True, None),
    "hindsight": lambda spark, follows, offers, sink, size: _plain(follows, offers, sink, AQE, False, size),
}
"""``hindsight`` is the plain job with adaptive execution and, in each phase, the order that is the right one."""


def _contend(folder: Path, contender: str, size: Size) -> None:
    """One contender, in a JVM of its own; leaves what it took."""
    SETTINGS["spark.driver.memory"] = "3g"  # before the JVM starts
    spark = make_session(None, folder)
    for name in PLANNER if contender == "AQE and CBO" else ():
        spark.conf.set(name, "true")
    follows, offers = (_table(spark, folder / "data", name) for name in ("follows", "offers"))
    run, sink = empty_folder(folder / "run"), Sink({})
    batch = CONTENDERS[contender](spark, follows, offers, sink, size)
    plans: list[str] = []

    def each(views: DataFrame, number: int) -> None:
        batch(views, number)
        if isinstance(batch, JoinRun):
            plans.append(batch.plans()["views"])

    views = spark.readStream.schema("who long, item long").option("maxFilesPerTrigger", 1)
    stream = views.parquet(str(folder / "data" / "views")).writeStream.foreachBatch(each)
    query = stream.option("checkpointLocation", str(run / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    switches = batch.switches if isinstance(batch, JoinRun) else None
    digests = tuple(sink.digests[number] for number in sorted(sink.digests))
    (folder / "found").write_bytes(pickle.dumps(Run(trigger_milliseconds(query), digests, tuple(plans), switches)))
    spark.stop()


def _table(spark: SparkSession, data: Path, name: str) -> DataFrame:
    """A static table, analysed and cached, for all contenders alike."""
    first = "who long, follower long" if name == "follows" else "item long, offer long"
    spark.sql(f"CREATE TABLE {name} ({first}) USING parquet LOCATION '{data / name}'")
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
    spark.sql(f"CACHE TABLE {name}")
    return spark.table(name)


# ------------------------------------------------------------------ the study
def study(quick: bool) -> dict[str, Any]:
    """Milliseconds a batch of each contender, the answers compared."""
    size, progress = QUICK if quick else FULL, Console(stderr=True)
    runs: dict[str, Run] = {}
    with tempfile.TemporaryDirectory(prefix="cqels-opt-bench-") as scratch:
        folder = Path(scratch)
        make(folder / "data", size)
        for contender in CONTENDERS:
            progress.print(f"adaptive-join: {contender}")
            apart.wait(apart.start(_contend, folder, contender, size))
            runs[contender] = pickle.loads((folder / "found").read_bytes())
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
                "phases": [median(_of_phase(run.milliseconds, which, size)) for which in (0, 1)],
                "over adaptive": sum(ms) / base,
                "verified": True,
            }
            for name, ms in counted.items()
            for run in [runs[name]]
        ],
    }


def _of_phase(milliseconds: tuple[float, ...], which: int, size: Size) -> list[float]:
    return [ms for number, ms in enumerate(milliseconds) if number >= WARM_UP and phase(number, size) == which]


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    shown = table(
        "contender",
        title="Milliseconds a micro-batch: median when viewers are famous, and when items are in demand; total of the counted",
    )
    for head in ("viewers", "items", "total", "over adaptive"):
        shown.add_column(head, justify="right")
    for row in found["results"]:
        one, two = row["phases"]
        shown.add_row(
            row["contender"], f"{one:,.0f}", f"{two:,.0f}", f"{row['milliseconds']['total']:,.0f}", f"{row['over adaptive']:.2f}×"
        )
    screen = console()
    screen.print(shown)
    rows = sum(found["answers"])
    screen.print(f"adaptive changed its plan {found['switches']} times; all contenders gave the same answers, {rows:,} rows")
