"""Engines that the arena installs: their answers to its workloads at a tiny size are those of the engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_tasks import tiny

from cqels_opt.bench.contenders import find
from cqels_opt.bench.measure import check, in_turns


@pytest.mark.parametrize(
    ("rival", "workload"),
    [
        ("flink", "nexmark"),
        ("pathway", "nexmark"),
        ("differential", "nexmark"),
        ("esper", "nexmark"),
        ("esper", "lsbench"),
        ("esper", "lsqb"),
        ("esper", "srbench"),
    ],
)
def test_installed_rivals_give_the_answers_of_the_engine(rival: str, workload: str, tmp_path: Path) -> None:
    worlds = tiny(workload, tmp_path)
    (case,) = worlds.scenario.cases()
    for query, task in worlds.tasks(case)[1].items():
        runs = in_turns(find(("adaptive", rival)), task, tmp_path / "runs", 300)
        assert [run.why for run in runs] == [None, None], query
        check(query, runs)
        assert runs[0].bag.total > 0, query
