"""Weather stations on a map: neighbours, regions and alarm thresholds as static data; a stream of readings.

Seeded and vectorised. Some stations report far more often than others (``skew``), and a front moves over the map during the
stream: readings are high along it, so that the stations that exceed their threshold change from place to place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.social import START
from cqels_opt.errors import InputError

STREAM = "http://example.org/sensors/readings"
NS = "http://example.org/sensors#"
_STATION, _REGION = "http://example.org/station/", "http://example.org/region/"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
FRONT = 0.15
"""The width of the front, on a map of width 1."""


def sensors(
    folder: Path, request: Request, *, stations: int = 5_000, regions: int = 50, near: int = 8, skew: float = 1.5, alarm: int = 30
) -> Data:
    """Writes ``static.nt`` and ``readings.parquet``. Each station has ``near`` neighbours and an alarm at about ``alarm``."""
    if request.rate is None:
        raise InputError("the generator sensors needs stream.rates")
    if not 1 <= near < stations:
        raise InputError(f"data.near: a station is near 1 to {stations - 1} others, not {near}")
    random = np.random.default_rng(request.seed)
    x, y = random.random(stations), random.random(stations)
    order = np.argsort(x + 0.1 * y)
    level = alarm + random.integers(-3, 4, stations)
    region = (x * regions).astype(np.int64)
    static = folder / "static.nt"
    with static.open("w", encoding="utf-8") as file:
        file.writelines(f'<{_REGION}{r}> <{_LABEL}> "Region {r}" .\n' for r in range(regions))
        for i in range(stations):
            file.write(f"<{_STATION}{i}> <{NS}in> <{_REGION}{region[i]}> .\n")
            file.write(f'<{_STATION}{i}> <{NS}alarm> "{level[i]}"^^<{_INTEGER}> .\n')
        for step in range(1, near + 1):
            pairs = zip(order.tolist(), np.roll(order, -step).tolist())
            file.writelines(f"<{_STATION}{a}> <{NS}near> <{_STATION}{b}> .\n" for a, b in pairs)
    count = request.elements
    who = (stations * random.random(count) ** skew).astype(np.int64)
    ahead = np.arange(count) / max(1, count)  # the position of the front
    heat = 15 * np.exp(-(((x[who] - ahead) / FRONT) ** 2))
    degrees = np.rint(18 + heat + random.normal(0, 3, count)).astype(np.int64)
    stream = folder / "readings.parquet"
    times = START + (np.arange(count) * 1000 / request.rate).astype(np.int64)
    terms = np.array([f"<{_STATION}{i}>" for i in range(stations)])
    values, place = np.unique(degrees, return_inverse=True)
    texts = np.array([f'"{value}"^^<{_INTEGER}>' for value in values.tolist()])
    columns = {
        "s": pa.array(terms[who]),
        "p": pa.array([f"<{NS}reads>"] * count),
        "o": pa.array(texts[place]),
        "t": pa.array(times),
    }
    parquet.write_table(pa.table(columns), stream)
    return Data({STREAM: stream}, (static,), {}, f"{stations:,} stations in {regions} regions, each near {near} others")
