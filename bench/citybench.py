"""CityBench (Ali, Gao, Mileo, ISWC 2015): the observations of Aarhus as streams of graphs, its sensors as static data.

The benchmark's folder has ``streams/*.stream`` and ``static/SensorRepository.n3``, optionally with ``.gz``; it is not part of the
project. A row becomes an observation for each property that its service observes, as in the benchmark's own harness::

    <obs> a ssn:Observation ; ssn:observedBy <service> ; ssn:observedProperty <property> ; sao:hasValue 52 .

The observations of a row are one element, at the row's time.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as parquet
import pyoxigraph as ox

from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.real_data import real_data
from cqels_opt.errors import DataError, InputError

SERVICES = "http://www.insight-centre.org/dataset/SampleEventService#"
SSN, SAO = "http://purl.oclc.org/NET/ssnx/ssn#", "http://purl.oclc.org/NET/sao/"
CT = "http://www.insight-centre.org/citytraffic#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_DOUBLE = "http://www.w3.org/2001/XMLSchema#double"

Row = Mapping[str, str]

POLLUTANTS = ("ozone", "particullate_matter", "carbon_monoxide", "sulfure_dioxide", "nitrogen_dioxide")  # spelled as in the data

VALUES: Mapping[str, Callable[[Row], float]] = {
    "AvgSpeed": lambda row: float(row["avgSpeed"]),
    "VehicleCount": lambda row: float(row["vehicleCount"]),
    "ParkingVacancy": lambda row: float(row["totalspaces"]) - float(row["vehiclecount"]),
    "Temperature": lambda row: float(row["tempm"]),
    "Humidity": lambda row: float(row["hum"]),
    "WindSpeed": lambda row: float(row["wspdm"]),
    "API": lambda row: max(float(row[name]) for name in POLLUTANTS),
}
"""The value of a property in a row, by the class of the property; other properties are omitted."""
TIMES = ("TIMESTAMP", "timestamp", "updatetime")


def lift(
    folder: Path,
    request: Request,
    *,
    streams: list[str],
    source: str | None = None,
    since: str | None = None,
    rows: int | None = None,
) -> Data:
    """The named streams from the benchmark's folder ``source`` (default: the data set ``citybench``).

    ``since``, a date, omits earlier rows; ``rows`` limits each stream.
    """
    place = request.folder / source if source is not None else real_data("citybench")
    begin = _time(since, "data.since") if since is not None else None
    repository = _found(place, "static", "SensorRepository.n3")
    static = folder / "static.nt"
    observes = _static(repository, static)
    files, elements = {}, 0
    for name in streams:
        properties = observes.get(SERVICES + name)
        if properties is None:
            raise InputError(f"data.streams: {repository} has no service {name}")
        files[SERVICES + name] = folder / f"{name}.parquet"
        elements += _stream(_found(place, "streams", f"{name}.stream"), name, properties, files[SERVICES + name], begin, rows)
    return Data(files, (static,), {}, f"CityBench: {len(files)} streams, {elements:,} elements")


def _found(place: Path, *parts: str) -> Path:
    plain = place.joinpath(*parts)
    for path in (plain, plain.with_name(f"{plain.name}.gz")):
        if path.is_file():
            return path
    raise InputError(
        f"{plain}: not there: a folder of CityBench has streams/*.stream and static/SensorRepository.n3 (also as .gz)"
    )


def _opened(path: Path) -> TextIO:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _static(repository: Path, to: Path) -> dict[str, dict[str, str]]:
    """Writes the sensors as N-Triples; returns the properties of each service with their classes."""
    store = ox.Store()
    with _opened(repository) as file:
        store.load(file.read(), ox.RdfFormat.N3)
    store.dump(str(to), ox.RdfFormat.N_TRIPLES, from_graph=ox.DefaultGraph())
    found: dict[str, dict[str, str]] = {}
    query = f"SELECT ?service ?property ?class {{ ?service <{SSN}observes> ?property . ?property <{_TYPE}> ?class }}"
    solutions: Any = store.query(query)
    for service, observed, kind in solutions:
        if kind.value.startswith(CT):
            found.setdefault(service.value, {})[observed.value] = kind.value.removeprefix(CT)
    return found


def _stream(path: Path, name: str, properties: Mapping[str, str], to: Path, begin: int | None, rows: int | None) -> int:
    """Writes a stream in time order; returns its number of elements."""
    columns: dict[str, list[Any]] = {key: [] for key in "spotg"}
    number = 0
    for number, (t, row) in enumerate(sorted(_rows(path, begin, rows), key=lambda item: item[0]), 1):
        for observed, kind in sorted(properties.items()):
            found = _value(path, number, row, kind)
            if found is None:
                continue
            observation = f"<{SERVICES}{name}/{number}/{kind}>"
            value = f'"{found:g}"^^<{_DOUBLE}>'
            triples = (
                (_TYPE, f"<{SSN}Observation>"),
                (SSN + "observedBy", f"<{SERVICES}{name}>"),
                (SSN + "observedProperty", f"<{observed}>"),
                (SAO + "hasValue", value),
            )
            for predicate, term in triples:
                for key, cell in zip("spotg", (observation, f"<{predicate}>", term, t, f"<{SERVICES}{name}/{number}>")):
                    columns[key].append(cell)
    parquet.write_table(
        pa.table({key: pa.array(cells, pa.int64() if key == "t" else pa.string()) for key, cells in columns.items()}), to
    )
    return number


def _value(path: Path, number: int, row: Row, kind: str) -> float | None:
    """The value of a property in a row; None for an empty cell or an unknown class."""
    if kind not in VALUES:
        return None
    try:
        return VALUES[kind](row)
    except (KeyError, ValueError) as error:
        if "" in row.values():
            return None
        raise DataError(f"{path}: row {number}: no value for {kind}: {error}") from error


def _rows(path: Path, begin: int | None, most: int | None) -> Iterator[tuple[int, Row]]:
    kept = 0
    with _opened(path) as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            if most is not None and kept >= most:
                return
            text = next((row[name] for name in TIMES if row.get(name)), "")
            time = _time(text, f"{path}:{number}")
            if begin is None or time >= begin:
                kept += 1
                yield time, row


def _time(text: str, place: str) -> int:
    """The milliseconds of a time without a zone, which is UTC."""
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError as error:
        raise DataError(f"{place}: no time: {text!r}") from error
