"""The study of many queries: one plan for all instances, answers equal to separate runs, and different queries run together."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.bench import concurrent
from cqels_opt.bench.concurrent import Scale, different, instances, measured, world

SMALL = Scale(authors=300, places=10, rate=20, counted=2, window=30)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> concurrent.World:
    return world(tmp_path_factory.mktemp("world"), SMALL)


@pytest.mark.long
@pytest.mark.parametrize("query", ["Q1'", "Q4'"])
def test_instances_are_one_plan_and_answer_as_apart(query: str, small: concurrent.World, tmp_path: Path) -> None:
    members = instances(query, 40, SMALL.authors)
    together = measured(small, query, members, "adaptive", tmp_path / "together")
    apart = measured(small, query, members, "apart", tmp_path / "apart")
    assert (together.programs, apart.programs) == (1, 40)
    assert together.digest == apart.digest and together.answers == apart.answers > 0


def test_no_two_of_the_different_queries_are_alike(small: concurrent.World, tmp_path: Path) -> None:
    members = different(concurrent.DIFFERENT)
    assert len(members) == concurrent.DIFFERENT == len({member.kind for member in members})
    ran = measured(small, "different", members[:6], "adaptive", tmp_path / "run")
    assert ran.programs == 6 and ran.answers > 0


def test_ratios_are_of_the_most_to_the_fewest() -> None:
    def ran(number: int, ms: float) -> concurrent.Ran:
        return concurrent.Ran("Q1'", number, "adaptive", (ms,), 0.0, 0.0, 1, 1, "")

    assert concurrent.ratios([ran(10, 50.0), ran(5_000, 100.0)]) == {"Q1'": {"adaptive": 2.0}}


def test_different_queries_are_compared_with_the_mean_of_one_alone() -> None:
    def ran(contender: str, ms: float, cpu: float) -> concurrent.Ran:
        return concurrent.Ran("different", 4, contender, (ms, ms + 2), 0.0, 0.0, 4, 1, "", (cpu, cpu))

    found = concurrent.to_mean_of_one([ran("adaptive", 29.0, 20.0), ran("one by one", 39.0, 16.0)])
    assert found["wall"] == {"together_ms": 30.0, "one_ms": 10.0, "ratio": 3.0}
    assert found["cpu"] == {"together_ms": 20.0, "one_ms": 4.0, "ratio": 5.0}


def test_a_run_reports_its_cpu_time(small: concurrent.World, tmp_path: Path) -> None:
    ran = measured(small, "different", different(2), "adaptive", tmp_path / "run")
    assert len(ran.cpu) == len(ran.milliseconds) and all(ran.cpu)
