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
        ("cqels", "report"),
        ("cqels", "nexmark"),
        ("cqels", "lsbench"),
        ("cqels", "lsqb"),
        ("csparql", "report"),
        ("csparql", "lsbench"),
        ("yasper", "report"),
        ("yasper", "nexmark"),
        ("yasper", "lsbench"),
        ("kolibrie", "report"),
        ("kolibrie", "nexmark"),
        ("kolibrie", "lsbench"),
    ],
)
def test_installed_rivals_give_the_answers_of_the_engine(rival: str, workload: str, tmp_path: Path) -> None:
    worlds, answered = tiny(workload, tmp_path), 0
    (case,) = worlds.scenario.cases()
    for query, task in worlds.tasks(case)[1].items():
        ours, theirs = in_turns(find(("adaptive", rival)), task, tmp_path / "runs", 300)
        assert ours.why is None and ours.bag.total > 0, query
        if theirs.why is None:
            check(query, [ours, theirs])
            answered += 1
        else:
            assert not theirs.why.startswith(("failed: ", "there is no ")), f"{query}: {theirs.why}"
    assert answered
