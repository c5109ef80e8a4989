"""Large batches: three million flights joined with the table of airports twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

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
from cqels_opt.errors import InputError
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

SEED = 23
ROWS, QUICK_ROWS, BATCHES, QUICK_BATCHES = 750_000, 50_000, 4, 3
AIRPORTS, IN_USE = 3_376, 229
"""Airports in the table, and those that flights use."""
FLIGHTS_FILE, AIRPORTS_FILE = "flights-3m.parquet", "airports.csv"
COLUMNS = (
    "flights.date AS date",
    "flights.delay AS delay",
    "origins.city AS origin",
    "origins.state AS origin_state",
    "dests.city AS dest",
    "dests.state AS dest_state",
)
CONDITIONS = {"origins": "flights.origin = origins.iata", "dests": "flights.destination = dests.iata"}
QUERY = f"SELECT {', '.join(COLUMNS)} FROM flights " + " ".join(f"JOIN {name} ON {on}" for name, on in CONDITIONS.items())


def make(folder: Path, quick: bool, given: Path | None) -> str:
    """Writes the flights and airports of the user's folder, or generated ones of the same shape."""
    rows, batches = (QUICK_ROWS, QUICK_BATCHES) if quick else (ROWS, BATCHES)
    flights, airports = generated(rows * batches) if given is None else read(given)
    write_stream(folder / "stream", flights, rows, batches)
    write_table(folder / "airports.parquet", airports)
    source = f"generated data (seed {SEED})" if given is None else "vega-datasets"
    return f"{source}, {batches} batches of {rows:,} flights, {len(airports):,} airports"


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The flights and airports of the npm package ``vega-datasets``, version 2.9 or newer; InputError if files are missing."""
    for name in (FLIGHTS_FILE, AIRPORTS_FILE):
        if not (folder / name).is_file():
            raise InputError(
                f"--data: {folder} has no {name}: name the folder package/data of the npm package vega-datasets "
                "(npm pack vega-datasets@2), or leave --data out: then the flights are generated"
            )
    return pd.read_parquet(folder / FLIGHTS_FILE), pd.read_csv(folder / AIRPORTS_FILE)


def generated(rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Flights and airports with the columns, types and numbers of values of ``vega-datasets``; few airports have most flights."""
    random = np.random.default_rng(SEED)
    codes = np.array([f"{chr(65 + n // 676)}{chr(65 + n // 26 % 26)}{chr(65 + n % 26)}" for n in range(AIRPORTS)])
    weights = 1 / np.arange(1, IN_USE + 1)
    used = random.choice(AIRPORTS, IN_USE, replace=False)
    origin, destination = (codes[used[random.choice(IN_USE, rows, p=weights / weights.sum())]] for _ in range(2))
    minutes = np.sort(random.integers(0, 213_790, rows))
    dates = np.array([f"{1 + n // 8_640:04d}{n % 8_640:04d}" for n in range(213_790)])[minutes]
    delay = np.round(random.normal(8, 30, rows)).astype(np.int64)
    distance = random.integers(50, 2_700, rows)
    flights = pd.DataFrame({"date": dates, "delay": delay, "distance": distance, "origin": origin, "destination": destination})
    number = np.arange(AIRPORTS)
    airports = pd.DataFrame(
        {
            "iata": codes,
            "name": [f"Airport {n}" for n in number],
            "city": [f"City {n}" for n in number // 2],
            "state": [f"S{n}" for n in number % 50],
            "country": "USA",
            "latitude": random.uniform(20, 70, AIRPORTS),
            "longitude": random.uniform(-160, -65, AIRPORTS),
        }
    )
    return flights, airports


def tables(spark: SparkSession, data: Path) -> dict[str, DataFrame]:
    """The airports under two names."""
    airports = cached(spark, data, ("airports",))["airports"]
    for name in CONDITIONS:
        airports.createOrReplaceTempView(name)
    return dict.fromkeys(CONDITIONS, airports)


def _adaptive(case: Case) -> Batch:
    join = AdaptiveJoin(case.spark).relation("flights")
    return enriched(join, case, CONDITIONS, COLUMNS).batch(then=case.sink)


JOB = Job(
    "flights",
    "Flights with airports twice",
    make,
    tables,
    {"adaptive": Contender(_adaptive), "plain": Contender(partial(in_sql, view="flights", query=QUERY))},
    names_of(COLUMNS),
    base="plain",
    warm_up=1,
)
