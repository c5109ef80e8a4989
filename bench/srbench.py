"""Weather stations in the vocabulary of SRBench (Zhang et al. 2012), seeded and vectorised: one stream of observations as graphs.

An observation has a kind, a station (its procedure) and a result with a value and a unit. A storm moves over the stations: within it,
winds are strong, snow falls and the view is short. Static data say which places of which states the stations are near, which kinds of
observations are of precipitation, and which speeds belong to a force of wind; places have inhabitants, and some are shores or have an
airport or a heritage site. SRBench's data are linked to GeoNames and DBpedia; here places and hurricanes are generated.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.graph_streams import INTEGER, Ints, Terms, integers, numbered, write_graphs
from cqels_opt.bench.social import START
from cqels_opt.errors import InputError

OWL, WEATHER = "http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#", "http://knoesis.wright.edu/ssw/ont/weather.owl#"
GEO, DATA = "http://www.geonames.org/ontology#", "http://knoesis.wright.edu/ssw/"
DBO, DBP = "http://dbpedia.org/ontology/", "http://dbpedia.org/property/"
TYPE, SUBCLASS = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "http://www.w3.org/2000/01/rdf-schema#subClassOf"
OBSERVATIONS = DATA + "observations"
KINDS = {
    "AirTemperature": "fahrenheit",
    "WindSpeed": "milesPerHour",
    "WindDirection": "degrees",
    "Rainfall": "centimeters",
    "Snowfall": "centimeters",
    "Visibility": "miles",
}
"""The kinds of observations, and their units."""
BEAUFORT = (0, 1, 4, 8, 13, 19, 25, 32, 39, 47, 55, 64, 73)
"""The least speed of each force of wind (miles per hour)."""
SHORES, AIRPORTS, SITES, HURRICANES = 3, 4, 2, 10
"""One place in SHORES is a shore, one in AIRPORTS has an airport, one in SITES a heritage site; and the number of known hurricanes."""
STORM, TRAVEL = 0.1, 0.3
"""The share of the stations that are in the storm, and the share that it passes during the stream."""


def srbench(folder: Path, request: Request, *, stations: int = 2_000, states: int = 50, near: int = 3) -> Data:
    """Writes ``static.nt`` and ``observations.parquet``. Each station is near ``near`` places."""
    if request.rate is None:
        raise InputError("the generator srbench needs stream.rates")
    random = np.random.default_rng(request.seed)
    count = request.elements
    station, kind = random.integers(0, stations, count), random.integers(0, len(KINDS), count)
    begins = (np.arange(count) * TRAVEL * stations / max(1, count)).astype(np.int64)
    storm = (station - begins) % stations < STORM * stations
    value = _values(random, kind, storm)
    times = START + (np.arange(count) * 1000 / request.rate).astype(np.int64)
    names = list(KINDS)
    observations, results = numbered(DATA + "observation/", np.arange(count)), numbered(DATA + "result/", np.arange(count))
    triples = write_graphs(
        folder / "observations.parquet",
        observations,
        [
            (observations, TYPE, _of(kind, [f"<{WEATHER}{name}Observation>" for name in names])),
            (observations, OWL + "procedure", numbered(DATA + "station/", station)),
            (observations, OWL + "result", results),
            (results, OWL + "floatValue", integers(value)),
            (results, OWL + "uom", _of(kind, [f"<{WEATHER}{KINDS[name]}>" for name in names])),
        ],
        times,
    )
    static = _static(folder, random, stations, states, near)
    described = f"{count:,} observations, {triples:,} triples; {stations:,} stations, each near {near} places in {states} states"
    return Data({OBSERVATIONS: folder / "observations.parquet"}, (static,), {}, described)


def _values(random: np.random.Generator, kind: Ints, storm: NDArray[np.bool_]) -> Ints:
    """A value for each observation, by its kind: in the storm, and outside of it."""
    calm = np.array([(20, 90), (0, 30), (0, 360), (0, 4), (0, 2), (5, 30)])
    wild = np.array([(10, 40), (30, 110), (0, 360), (0, 40), (5, 50), (0, 10)])
    low, high = (np.where(storm, wild[kind, end], calm[kind, end]) for end in (0, 1))
    found: Ints = random.integers(low, high + 1)
    return found


def _of(kind: Ints, terms: list[str]) -> Terms:
    found: Terms = np.array(terms)[kind]
    return found


def _static(folder: Path, random: np.random.Generator, stations: int, states: int, near: int) -> Path:
    path, places = folder / "static.nt", max(near, stations // 2)
    state, where = random.integers(0, states, places), random.integers(0, places, stations)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f'<{DATA}state/{i}> <{GEO}name> "State {i}" .\n' for i in range(states))
        for i, of in enumerate(state.tolist()):
            file.write(f'<{DATA}place/{i}> <{GEO}name> "Place {i}" .\n<{DATA}place/{i}> <{GEO}parentADM1> <{DATA}state/{of}> .\n')
            file.write(f'<{DATA}place/{i}> <{GEO}population> "{77_777 * (i + 1) % 200_000}"^^<{INTEGER}> .\n')
            file.write(f"<{DATA}place/{i}> <{GEO}featureCode> <{GEO}{'H.BCH' if i % SHORES == 0 else 'P.PPL'}> .\n")
            if i % AIRPORTS == 0:
                file.write(f"<{DATA}airport/{i}> <{DBO}city> <{DATA}place/{i}> .\n")
            if i % SITES == 0:
                file.write(f"<{DATA}site/{i}> <{DBO}location> <{DATA}place/{i}> .\n")
        for i, first in enumerate(where.tolist()):
            for number in range(near):
                relation = f"<{DATA}near/{i}-{number}>"
                file.write(f"<{DATA}station/{i}> <{OWL}hasLocatedNearRel> {relation} .\n")
                file.write(f"{relation} <{OWL}hasLocation> <{DATA}place/{(first + number) % places}> .\n")
        for name in ("Rainfall", "Snowfall"):
            file.write(f"<{WEATHER}{name}Observation> <{SUBCLASS}> <{WEATHER}PrecipitationObservation> .\n")
        for force, (low, high) in enumerate(zip(BEAUFORT, (*BEAUFORT[1:], 1000))):
            file.write(f'<{DATA}force/{force}> <{WEATHER}from> "{low}"^^<{INTEGER}> .\n')
            file.write(f'<{DATA}force/{force}> <{WEATHER}below> "{high}"^^<{INTEGER}> .\n')
        for number in range(HURRICANES):
            file.write(f'<{DATA}hurricane/{number}> <{DBP}winds> "{74 + 4 * number}"^^<{INTEGER}> .\n')
    return path
