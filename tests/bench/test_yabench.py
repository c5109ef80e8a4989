"""YABench: the contents of its oracle, and the engine's rows in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cqels_opt.bench import yabench
from cqels_opt.bench.yabench import PUBLISHED, Setting, contents, expected, observations, run, study
from cqels_opt.errors import RunError

ARRIVALS = Setting("cqels", 1, 5, 5, 1, 2, 20)
CLOSINGS = Setting("csparql", 1, 120, 60, 3, 30, 300)


def test_contents_at_arrivals_are_those_of_its_window_factory() -> None:
    assert list(contents(ARRIVALS, [1000, 1500, 7000, 10_000, 13_000])) == [
        (1000, 0, 1000),
        (1500, 0, 1500),
        (7000, 5000, 7000),
        (10_000, 5000, 10_000),
        (13_000, 10_000, 13_000),
    ]
    sliding = replace(ARRIVALS, range=60, slide=30)
    times = [0, 32_434, 34_125, 37_047, 42_365, 61_500, 93_000]
    assert [first for _, first, _ in contents(sliding, times)] == [0, 0, 0, 0, 0, 30_000, 60_000]


def test_windows_close_at_multiples_of_the_slide_while_they_have_elements() -> None:
    assert list(contents(CLOSINGS, [60_500, 130_000])) == [
        (120_000, 0, 120_000),
        (180_000, 60_000, 180_000),
        (240_000, 120_000, 240_000),
    ]


@pytest.mark.parametrize("setting", [ARRIVALS, CLOSINGS], ids=lambda setting: setting.language)
def test_the_engine_has_its_rows(setting: Setting, tmp_path: Path) -> None:
    row = run(setting, tmp_path / "run")
    assert row["instants"] == len(expected(setting, observations(setting))) > 0
    assert row["rows"] > 0


def test_other_windows_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CQELS-QL without the profile: an element enters at the next slide."""
    monkeypatch.setattr(yabench, "PROFILES", {"cqels": None})
    with pytest.raises(RunError, match=r"YABench's query 1 in cqels, range 60 s, slide 30 s: at \d+ ms the engine has"):
        run(Setting("cqels", 1, 60, 30, 3, 15, 120), tmp_path / "run")


@pytest.mark.long
def test_the_published_tests() -> None:
    found = study(False)["results"]
    assert len(found) == len(PUBLISHED)
    assert {(row["language"], row["query"]) for row in found} == {
        (language, n) for language in ("cqels", "csparql") for n in (1, 2, 3)
    }
    yabench.show({"results": found})
