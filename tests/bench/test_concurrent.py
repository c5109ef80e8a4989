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


def test_growth_is_shown_next_to_the_reports(capsys: pytest.CaptureFixture[str]) -> None:
    size = {"memory_mb": 9, "registered_s": 0.0, "programs": 1, "answers": 1}
    counts = ((10, 20.0), (1_000, 90.0))
    rows = [{"query": "Q2'", "instances": n, "contender": "sub-results", "ms": ms, **size} for n, ms in counts]
    rows.append({"query": "different", "instances": 20, "contender": "adaptive", "ms": 1.0, **size})
    concurrent.show({"world": {"authors": 1, "rate": 1}, "concurrent": rows, "different": {}})
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "1,000" in line)
    assert [cell.strip() for cell in line.split("|")[1:7]] == ["Q2'", "1,000", "sub-results", "90.0", "4.50", "7.5"]


def test_different_queries_are_compared_with_the_mean_of_one_alone() -> None:
    def ran(contender: str, ms: float, cpu: float) -> concurrent.Ran:
        return concurrent.Ran("different", 4, contender, (ms, ms + 2), 0.0, 0.0, 4, 1, "", (cpu, cpu))

    found = concurrent.to_mean_of_one([ran("adaptive", 29.0, 20.0), ran("one by one", 39.0, 16.0)])
    assert found["wall"] == {"together_ms": 30.0, "one_ms": 10.0, "ratio": 3.0}
    assert found["cpu"] == {"together_ms": 20.0, "one_ms": 4.0, "ratio": 5.0}


def test_a_run_reports_its_cpu_time(small: concurrent.World, tmp_path: Path) -> None:
    ran = measured(small, "different", different(2), "adaptive", tmp_path / "run")
    assert len(ran.cpu) == len(ran.milliseconds) and all(ran.cpu)
