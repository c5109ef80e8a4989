"""The data of scenarios: equal seeds make equal data, and the queries over them have answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from cqels_opt.bench.comparing import compare
from cqels_opt.bench.declared import Stream, read, shipped
from cqels_opt.bench.generated import Request
from cqels_opt.bench.generators import generate
from cqels_opt.errors import InputError
from cqels_opt.windows.replay import ReplaySource, cut

SMALL = {
    "social": {"authors": 40, "places": 5},
    "skew": {"people": 40, "rooms": 4, "topics": 30},
    "sensors": {"stations": 30, "regions": 3, "near": 2},
}


@pytest.mark.parametrize("name", SMALL)
def test_seeded_and_filled(tmp_path: Path, name: str) -> None:
    parameters = {"generator": name, **SMALL[name]}
    one, same, other = (generate(tmp_path / f"{i}", Request(seed, 20, 4, 0), parameters) for i, seed in enumerate((1, 1, 2)))
    files = [[path.read_bytes() for path in (*d.static, *d.graphs.values(), *d.streams.values())] for d in (one, same, other)]
    assert files[0] == files[1]
    assert files[0][-1] != files[2][-1]
    times = parquet.read_table(next(iter(one.streams.values())))["t"].to_pylist()
    assert (len(times), times) == (80, sorted(times))


@pytest.mark.parametrize("name", ["social", "sensors"])
def test_as_many_elements_enter_a_window_as_leave_it(tmp_path: Path, name: str) -> None:
    """Once the first batch, of 10 seconds, has filled it."""
    data = generate(tmp_path / "data", Request(1, 20, 4, 10), {"generator": name, **SMALL[name]})
    ((iri, path),) = data.streams.items()
    plan = cut([ReplaySource(iri, (path,))], tmp_path / "cut", Stream(window=10).batches(20))
    assert [chunk.elements for chunk in plan.chunks] == [200, 20, 20, 20, 20]
    times = np.array(parquet.read_table(path)["t"].to_pylist())
    ends = [max(chunk.greatest.values()) for chunk in plan.chunks]
    assert [int(((times > end - 10_000) & (times <= end)).sum()) for end in ends] == [200] * 5


@pytest.mark.parametrize("name", SMALL)
def test_generators_with_a_rate_ask_for_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"the generator {name} needs stream.rates"):
        generate(tmp_path, Request(1, None, 4, 0), {"generator": name})


def test_the_tunnel_has_times_of_its_own(tmp_path: Path) -> None:
    parameters = {"generator": "tunnel", "sectors": 3}
    one, same = (generate(tmp_path / f"{i}", Request(1, None, 4, 2), parameters) for i in range(2))
    assert [path.read_bytes() for path in one.streams.values()] == [path.read_bytes() for path in same.streams.values()]
    for path in one.streams.values():
        times = [json.loads(line)["t"] for line in path.read_text(encoding="utf-8").splitlines()]
        assert sorted(set(times)) == [1000 * second for second in range(1, 7)]
    with pytest.raises(InputError, match="the generator tunnel has times of its own"):
        generate(tmp_path / "2", Request(1, 20, 4, 0), parameters)


@pytest.mark.long
@pytest.mark.parametrize("name", ["sensors", "hubs"])
def test_shipped_scenarios_have_answers(tmp_path: Path, name: str) -> None:
    text = shipped()[name].read_text(encoding="utf-8")
    for words in ('"first", ', ', "worst"', ', "system-x"'):
        text = text.replace(words, "")
    path = tmp_path / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    for query in shipped()[name].parent.glob("*.rq"):
        (tmp_path / query.name).write_text(query.read_text(encoding="utf-8"), encoding="utf-8")
    report = compare(read(path, quick=True))
    assert report["failed"] == []
    assert all(result["answers"] > 0 for result in report["results"])


@pytest.mark.needs_shared_data
def test_citybench(tmp_path: Path) -> None:
    from cqels_opt.bench.citybench import SERVICES

    parameters = {"generator": "citybench", "streams": ["AarhusTrafficData182955", "AarhusWeatherData0"], "rows": 10}
    data = generate(tmp_path, Request(1, None, 0, 0), parameters)
    rows = parquet.read_table(data.streams[SERVICES + "AarhusTrafficData182955"]).to_pylist()
    assert len(rows) == 10 * 2 * 4  # speed and vehicles, four triples each
    assert len({row["g"] for row in rows}) == 10
    weather = parquet.read_table(data.streams[SERVICES + "AarhusWeatherData0"]).to_pylist()
    assert '"18"^^<http://www.w3.org/2001/XMLSchema#double>' in {row["o"] for row in weather}
    late = generate(tmp_path / "late", Request(1, None, 0, 0), {**parameters, "since": "2014-09-01"})
    times = parquet.read_table(late.streams[SERVICES + "AarhusWeatherData0"])["t"].to_pylist()
    assert min(times) >= 1_409_529_600_000
    with pytest.raises(InputError, match="has no service Nowhere"):
        generate(tmp_path / "b", Request(1, None, 0, 0), {"generator": "citybench", "streams": ["Nowhere"]})
