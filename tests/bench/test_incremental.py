"""The study of operators above the joins: incremental ones read rows in proportion to the batch, others to the window."""

from __future__ import annotations

import pytest

from cqels_opt.bench import incremental


@pytest.mark.long
def test_rows_read_follow_the_batch() -> None:
    found = incremental.study(quick=True)
    rate = found["elements a batch"]
    for one in found["queries"]:
        assert one["from all rows"]["rows"] > one["window"] / 10
        if one["query"] != "DISTINCT":  # people arrive again, and so do their rows
            assert one["incrementally"]["rows"] <= 6 * rate
    small, large = (one for one in found["queries"] if one["query"] == "COUNT and SUM of all")
    assert large["from all rows"]["rows"] > 2 * small["from all rows"]["rows"]
    assert large["incrementally"]["rows"] < 1.5 * small["incrementally"]["rows"]


def test_the_ratio_names_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    ways = {"incrementally": {"rows": 1, "ms": 2.0}, "from all rows": {"rows": 9, "ms": 7.0}}
    incremental.show({"elements a batch": 5, "queries": [{"query": "DISTINCT", "window": 9, **ways}]})
    lines = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.splitlines()]
    assert any("ms from all rows / incrementally" in line for line in lines)
    assert any(line[-2:-1] == ["3.5"] for line in lines)
