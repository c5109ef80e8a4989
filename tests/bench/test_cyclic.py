"""The study of cyclic patterns: its SQL and its rows, at a small size."""

from __future__ import annotations

import numpy as np
import pytest

from cqels_opt.bench import cyclic


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
    cyclic.show({"edges": 200, "at the hub": 1, "peak MB": 1.0, "patterns": [found]})
