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


@pytest.mark.parametrize("query", ["Q1'", "Q4'"])
def test_instances_are_one_plan_and_answer_as_apart(query: str, small: concurrent.World, tmp_path: Path) -> None:
    members = instances(query, 40, SMALL.authors)
    together = measured(small, query, members, "adaptive", tmp_path / "together", local=True)
    apart = measured(small, query, members, "apart", tmp_path / "apart", local=True)
    assert (together.programs, apart.programs) == (1, 40)
    assert together.digest == apart.digest and together.answers == apart.answers > 0


def test_no_two_of_the_different_queries_are_alike(small: concurrent.World, tmp_path: Path) -> None:
    members = different(concurrent.DIFFERENT)
    assert len(members) == concurrent.DIFFERENT == len({member.kind for member in members})
    ran = measured(small, "different", members[:6], "adaptive", tmp_path / "run", local=True)
    assert ran.programs == 6 and ran.answers > 0


def test_ratios_are_of_the_most_to_the_fewest() -> None:
    def ran(number: int, ms: float) -> concurrent.Ran:
        return concurrent.Ran("Q1'", number, "adaptive", (ms,), 0.0, 0.0, 1, 2, 1, "")

    assert concurrent.ratios([ran(10, 50.0), ran(5_000, 100.0)]) == {"Q1'": {"adaptive": 2.0}}
