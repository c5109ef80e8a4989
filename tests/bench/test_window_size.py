"""The study of the cost of a row as windows grow: its independent count of answers, and a run of it."""

from __future__ import annotations

import pytest

from cqels_opt.bench import window_size
from cqels_opt.errors import RunError


@pytest.mark.parametrize("name", window_size.STUDIES)
@pytest.mark.parametrize(("rows", "size"), [(600, 100), (900, 200)])
def test_the_expected_answers_are_rows_within_a_window_that_join(name: str, rows: int, size: int) -> None:
    study = window_size.STUDIES[name]
    every = window_size.elements(study, 0, rows, size).select(["stream", "s", "o", "t"]).to_pylist()
    upto = every[-1]["t"] - 1
    joined = [[row] for row in every if row["stream"] == 0]
    for stream in range(1, len(study.patterns)):
        key = "s" if study.patterns[stream][0] in study.patterns[stream - 1] else "o"
        joined = [[*some, row] for some in joined for row in every if row["stream"] == stream and row[key] == some[-1]["o"]]
    times = [[row["t"] for row in some] for some in joined]
    found = [some for some in times if max(some) <= upto and max(some) - min(some) < window_size.SPAN]
    assert window_size.expected(study, rows, size, upto) == len(found) > 100


@pytest.mark.parametrize("name", window_size.STUDIES)
def test_a_small_window(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(window_size, "BATCH", 100)
    monkeypatch.setattr(window_size, "FILLING", 3)
    found = window_size.measure(name, 500, timed=5)
    assert found["answers"] > 300
    assert found["cpu us a row"] > 0
    assert found["rows of joins a row"] > 0


@pytest.mark.long
def test_rows_of_joins_do_not_grow_with_windows_unless_rows_meet_others_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_size, "BATCH", 200)
    monkeypatch.setattr(window_size, "FILLING", 4)
    for name in window_size.STUDIES:
        small, large = (window_size.measure(name, size, timed=6)["rows of joins a row"] for size in (500, 4_000))
        assert (large > 3 * small) if name == "hub" else (0.9 * small < large < 1.1 * small), (name, small, large)


def test_a_wrong_number_of_answers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_size, "BATCH", 100)
    monkeypatch.setattr(window_size, "expected", lambda study, rows, size, upto: 7)
    with pytest.raises(RunError, match="instead of 7: this is a bug"):
        window_size.measure("pair", 500, timed=1)
