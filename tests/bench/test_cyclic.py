"""The study of cyclic patterns: its SQL and its rows, at a small size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cqels_opt.bench import cyclic
from cqels_opt.bench.contenders import Answer, Done, Task
from cqels_opt.bench.local import load, prepare
from cqels_opt.windows.batch_size import BatchSize


def test_all_plans_and_duckdb_have_equal_answers_and_multiway_plans_read_fewer_rows_at_the_hub() -> None:
    found = cyclic.study(True, edges=1000, patterns=["triangle", "diamond"], modes=["multiway", "binary"])
    for pattern in found["patterns"]:
        assert set(pattern["runs"]) == {"multiway", "binary", cyclic.DUCKDB}
    (triangle, diamond) = (pattern["runs"] for pattern in found["patterns"])
    assert diamond["multiway"]["rows"] and diamond["binary"]["rows"]
    assert 10 * triangle["multiway"]["rows at the hub"] < triangle["binary"]["rows at the hub"]
    cyclic.show(found)


def test_the_edges_of_the_hub_are_last() -> None:
    edges, last = cyclic.hub_last(cyclic.power_law(400, 0.5))
    assert len(edges) == len(np.unique(edges, axis=0)) == 400 and last == 20
    assert (edges[-last:] == 0).any(axis=1).all()


def test_the_sql_of_a_pattern() -> None:
    assert cyclic.sql("ab ba a!=b") == (
        "SELECT greatest(e0.t, e1.t) AS time, e0.s[2:-2] AS a, e0.o[2:-2] AS b FROM recent_elements e0, recent_elements e1"
        " WHERE e0.o = e1.s AND e0.s = e1.o AND e0.s <> e0.o AND greatest(e0.t, e1.t) >= (SELECT min(t) FROM now_elements)"
    )


def test_an_evaluation_by_duckdb_that_takes_too_long_is_stopped_and_its_time_is_a_lower_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cyclic, "LONGEST", 1e-9)
    (found,) = cyclic.study(True, edges=200, patterns=("triangle",), modes=("multiway",))["patterns"]
    multiway, duckdb = found["runs"]["multiway"], found["runs"][cyclic.DUCKDB]
    assert (multiway["stopped"], duckdb["stopped"]) == (False, True)
    assert found["answers"] > 0
    assert (duckdb["s at the hub"], duckdb["CPU s at the hub"]) == (None, None)  # the first batch was stopped
    assert (found["edges"], found["at the hub"]) == (200, 10)
    cyclic.show({"peak MB": 1.0, "patterns": [found]})


def test_the_clock_of_duckdb_has_neither_its_preparation_nor_the_conversion_of_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    events: list[str] = []

    def run(task: Task, folder: Path) -> Iterator[Done | None]:
        events.append("prepared")
        for number in range(len(task.chunks)):
            yield None
            yield Done(converted(number))

    def converted(number: int) -> Iterator[Answer]:
        events.append("converted")
        yield number, {}

    def timed(batches: Iterable[Callable[[], Any]]) -> Any:
        events.append("clock starts")
        found = [batch() for batch in batches]
        events.append("clock stops")
        return found, (), ()

    monkeypatch.setattr(cyclic.duck, "run", run)
    monkeypatch.setattr(cyclic, "timed", timed)
    cyclic.write(*cyclic.hub_last(cyclic.power_law(100, 0.5)), stream := tmp_path / "stream.parquet")
    store, query = load(tmp_path / "store", []), cyclic.query("ab ba")
    prepared = prepare("q", query, store, {cyclic.STREAM: stream}, tmp_path / "query", BatchSize(duration=cyclic.HOUR))
    found = cyclic.duckdb(prepared, "ab ba", stream, tmp_path / "duck")
    assert events[:3] == ["prepared", "clock starts", "clock stops"]
    assert found.answers is not None and found.answers.total == events.count("converted") == len(prepared.replay.chunks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("pattern", "edges", "most"),
    [
        (cyclic.PATTERNS["4-clique"], 7_500, 15_000),
        (cyclic.PATTERNS["2-triangle"], 10_000, 150_000),
        ("ab ac ad ae bc bd be cd ce de", 1_500, 500_000),  # planned greedily
    ],
)
def test_plans_of_cliques_read_few_rows_in_every_batch(pattern: str, edges: int, most: int, tmp_path: Path) -> None:
    """By pairs each clique is expected to have billions of answers, so a plan that reads a hundred million rows seems as good as any."""
    graph, last = cyclic.hub_last(cyclic.power_law(edges, 0.5))
    cyclic.write(graph, last, stream := tmp_path / "stream.parquet")
    store, query = load(tmp_path / "store", []), cyclic.query(pattern)
    prepared = prepare("q", query, store, {cyclic.STREAM: stream}, tmp_path / "query", BatchSize(duration=cyclic.HOUR))
    found = cyclic.engine(prepared, cyclic.MODES["multiway"], tmp_path / "state")
    assert found.rows is not None and len(found.rows) == 5 and max(found.rows) <= most
