"""Drift: the job of ``examples/``, whose better join order changes, compared with Spark's own optimizers.

Page views are joined with the viewer's followers and with the item's offers. In one phase the viewers are famous and few items
are on offer, in the next the opposite: the join order decides whether the first join produces millions of rows that the second
one drops.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.adaptive_join import AdaptiveJoin
from cqels_opt.bench.dataframe_jobs.job import Batch, Case, Contender, Job
from cqels_opt.bench.rivals.jobs import PLANNER
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

SEED = 9
PHASES = 4
KEYS = {"follows": ("who", "follower"), "offers": ("item", "offer")}
"""The columns of the static tables; the first is the join key."""


@dataclass(frozen=True, slots=True)
class Size:
    """``famous`` people (items) have ``fanout`` followers (offers), ``ordinary`` ones one; batches per phase, views per batch."""

    famous: int
    fanout: int
    ordinary: int
    batches: int
    views: int
    matching: float = 0.02  # share of the views whose key on the ordinary side has a partner


FULL, QUICK = Size(200, 2_000, 600_000, 4, 2_000), Size(100, 1_000, 100_000, 1, 1_000)


# ------------------------------------------------------------------ data
def make(folder: Path, size: Size) -> None:
    """Writes the tables and the views, one file per micro-batch."""
    random = np.random.default_rng(SEED)
    for name, (one, many) in KEYS.items():
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


def _size(quick: bool) -> Size:
    return QUICK if quick else FULL


def _phase(number: int, quick: bool) -> int:
    return phase(number, _size(quick))


def _make(folder: Path, quick: bool, given: Path | None) -> str:
    size = _size(quick)
    make(folder, size)
    rows = size.famous * size.fanout + size.ordinary
    return f"generated data (seed {SEED}), {PHASES} phases of {size.batches} batches of {size.views:,} views, tables of {rows:,} rows"


def tables(spark: SparkSession, data: Path) -> dict[str, DataFrame]:
    """The static tables, analysed and cached, the same for all contenders."""
    for name, columns in KEYS.items():
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(f"CREATE TABLE {name} ({', '.join(f'{c} long' for c in columns)}) USING parquet LOCATION '{data / name}'")
        spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
        spark.sql(f"CACHE TABLE {name}")
    return {name: spark.table(name) for name in KEYS}


# ------------------------------------------------------------------ contenders
def _plain(case: Case, counted: bool = False, hindsight: bool = False) -> Batch:
    """The plain job; with ``hindsight``, in the best join order of each phase.

    ``counted``: the views are persisted and counted first, because the cost-based optimizer otherwise has no statistics for them.
    """

    def batch(views: DataFrame, number: int) -> None:
        kept = views.persist() if counted else views
        if counted:
            kept.count()
        sides = [(case.tables[name], key) for name, (key, _) in KEYS.items()]
        for other, key in reversed(sides) if hindsight and phase(number, _size(case.quick)) == 0 else sides:
            views = views.join(other, key)
        case.sink(views, number)
        if counted:
            kept.unpersist()

    return batch


def _adaptive(case: Case, plan: str) -> Batch:
    join = AdaptiveJoin(case.spark).relation("views")
    join = join.relation("follows", case.tables["follows"]).relation("offers", case.tables["offers"])
    join = join.on("views.who = follows.who AND views.item = offers.item")
    return join.select("views.item", "follows.follower", "offers.offer").batch(then=case.sink, plan=plan)


JOB = Job(
    "drift",
    "Page views while the better join order changes",
    _make,
    tables,
    {
        "adaptive": Contender(partial(_adaptive, plan="adaptive")),
        "static": Contender(partial(_adaptive, plan="static")),
        "as written": Contender(_plain, planner=0),
        "AQE": Contender(_plain),
        "extension": Contender(_plain, extension=True),
        "AQE and CBO": Contender(partial(_plain, counted=True), planner=len(PLANNER)),
        "hindsight": Contender(partial(_plain, hindsight=True)),
    },
    ("item", "follower", "offer"),
    base="adaptive",
    stream="views",
    phases=("viewers", "items"),
    phase=_phase,
)
"""``hindsight`` is the plain job with adaptive execution and the best join order of each phase."""
