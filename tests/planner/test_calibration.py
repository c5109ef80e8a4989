"""The fit of the cost model's constants, and what the experiments tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from cqels_opt.planner.calibration import WINDOWS, Experiment, SyntheticData, experiments, fitted, least_seconds, measure
from cqels_opt.planner.calibration_store import SPARK_NAMES
from cqels_opt.plans import Constants


def priced(work: dict[str, float], **seconds: float) -> tuple[dict[str, float], float]:
    return work, sum(seconds[name] * units for name, units in work.items())


def test_exact_timings_give_their_constants() -> None:
    true = {"start": 3e-5, "row": 2e-8}
    found = fitted([priced({"start": 1, "row": rows}, **true) for rows in (1, 100, 10_000)])
    assert found == pytest.approx(true)


def test_a_factor_too_high_counts_like_the_same_factor_too_low() -> None:
    assert fitted([({"row": 1}, 1.0), ({"row": 1}, 4.0)]) == pytest.approx({"row": 2.0}, rel=1e-3)


def test_small_experiments_count_as_much_as_large_ones() -> None:
    timings = [({"start": 1, "row": 1}, 1e-5), ({"start": 1, "row": 1_000_000}, 1.0), ({"start": 1, "row": 2_000_000}, 2.2)]
    assert fitted(timings)["start"] == pytest.approx(1e-5, rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_no_constant_is_negative_however_noisy_the_timings(seed: int) -> None:
    random = np.random.default_rng(seed)
    timings = [({"a": 1, "b": float(n), "c": n * np.log2(n)}, float(random.lognormal(-9, 2))) for n in (2, 30, 400, 5000, 60000)]
    found = fitted(timings)
    assert set(found) == {"a", "b", "c"}
    assert min(found.values()) >= 0
    assert max(found.values()) > 0


def test_the_experiments_tell_all_constants_apart() -> None:
    """On a machine that takes exactly what the model says, the model's constants are found."""
    true = {**asdict(Constants()), "start": 1e-5, "filtering": 3e-5}

    def timer(tried: Sequence[Experiment]) -> list[float]:
        return [sum(true[name] * units for name, units in experiment.work.items()) for experiment in tried]

    found = measure(timer)
    assert set(found) == set(asdict(Constants())) - set(SPARK_NAMES)
    assert found == pytest.approx({name: true[name] for name in found}, rel=1e-3)


def test_an_experiment_is_the_work_that_it_says(tmp_path: Path) -> None:
    tried = list(experiments(SyntheticData(tmp_path)))
    assert {experiment.work["scan"] for experiment in tried} >= set(WINDOWS)
    for experiment in tried:
        rows = experiment.run()
        assert isinstance(rows, list)
        if "probe" in experiment.work:
            assert experiment.work["operator"] == len(rows) - 1
            assert (experiment.work["probe"], experiment.work["produce"]) == (sum(rows[:-1]), sum(rows[1:]))
        if "build" in experiment.work:
            assert experiment.work["scan"] == experiment.work["match"] + experiment.work["build"]
            assert experiment.work["produce"] == rows[-1]
        if experiment.work.get("evaluate") == WINDOWS[-1]:
            assert 0.4 < rows[-1] / WINDOWS[-1] < 0.6


def test_a_first_run_warms_up_and_does_not_count() -> None:
    runs: list[str] = []
    tried = [Experiment({}, lambda: runs.append("a")), Experiment({}, lambda: runs.append("b"))]
    assert len(least_seconds(tried, rounds=2)) == 2
    assert runs == ["a", "b"] * 3
