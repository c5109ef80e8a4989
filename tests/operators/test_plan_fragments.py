"""A plan that is cut where other operators come between gives, over the rows of what lies below, the rows of the whole plan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from local_runs import Cut, force_plans, register
from random_cases import make

from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.rows import Rows
from cqels_opt.plans import DeltaRule, Plan, Scan, Split, operators
from cqels_opt.runtime import driver as driving
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.local_runner import LocalRunner


def bag(parts: list[Rows], names: list[str]) -> Counter[tuple[int, ...]]:
    """The rows, counted."""
    found: Counter[tuple[int, ...]] = Counter()
    for rows in parts:
        columns = [rows.columns[name].tolist() for name in names]
        for *key, n in zip(*columns, rows.start.tolist(), rows.end.tolist(), rows.n.tolist()):
            found[tuple(key)] += n
    return found


def spine(plan: Plan) -> list[Plan]:
    """The parts that begin where the plan does, the whole plan first."""
    return [plan] if isinstance(plan, Scan) else [plan, *spine(plan.input)]


R = TypeVar("R", bound=LocalRunner)


class Cutting(LocalRunner):
    """Does each term once more, in two parts."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(1)
        self.rng, self.cuts = rng, 0

    def evaluate(self, tasks: list[EvaluateTask], parts: int) -> driving.StageReports:  # type: ignore[override]
        for task in tasks:
            for block in task.program.blocks:
                for source in task.step.rules.get(block.name, DeltaRule()).order:
                    self.compare(task, block.name, source)
        return super().evaluate(tasks, parts)

    def compare(self, task: EvaluateTask, name: str, source: str) -> None:
        plan = task.step.plans[name][source]
        if isinstance(plan, Split):
            return
        block = next(b for b in task.program.blocks if b.name == name)
        whole, below, above = (DeltaJoin(block, task.program.store, task.step, task.terms()) for _ in range(3))
        part = self.rng.choice(spine(plan))
        lower = list(below.rows_of_part(source, part, plan, None))
        upper = list(above.rows_of_part(source, plan, plan, (part, iter(lower))))
        names = sorted(block.output)
        assert bag(upper, names) == bag(list(whole.rows_of(source)), names), (str(plan), str(part))
        counted = [a + b for a, b in zip(below.observed.operators[source], above.observed.operators[source])]
        assert counted == whole.observed.operators[source]
        self.cuts += part is not plan


class Sharing(Cutting):
    """Does each term once more, in three shares. Their bushy parts hold the rows only that the delta of a share can meet."""

    spared = 0

    def compare(self, task: EvaluateTask, name: str, source: str) -> None:
        block = next(b for b in task.program.blocks if b.name == name)
        whole, *shares = (
            DeltaJoin(block, task.program.store, task.step, task.terms(), *share) for share in ((0, 1), (0, 3), (1, 3), (2, 3))
        )
        names = sorted(block.output)
        found = [rows for share in shares for rows in share.rows_of(source)]
        assert bag(found, names) == bag(list(whole.rows_of(source)), names), str(task.step.plans[name][source])
        plan = task.step.plans[name][source]
        starts = [] if isinstance(plan, Split) else [i for i, step in enumerate(operators(plan)) if i and step.op == "scan"]
        for share in shares:
            of_share, of_all = share.observed.operators[source], whole.observed.operators[source]
            assert all(of_share[i] <= of_all[i] for i in starts)
            self.spared += sum(0 < of_share[i] < of_all[i] for i in starts)


def run_random(seeds: range, runner_of: Callable[[random.Random], R], folder: Path) -> list[R]:
    """Random queries under random plans, each with a runner of its own; returns the runners."""
    runners = []
    for seed in seeds:
        case = make(seed)
        query = register(case.query(), case.world, folder / str(seed), case.settings)
        rng = random.Random(seed)
        runners.append(runner := runner_of(rng))
        driver = query.driver(Cut("9"), runner=runner)
        for number, rows in enumerate(query.chunks(Cut("9"))):
            force_plans(driver, rng)
            driver.batch(number, rows)
    return runners


def test_shares_of_a_delta(tmp_path: Path) -> None:
    assert sum(runner.spared for runner in run_random(range(8), Sharing, tmp_path))


@pytest.mark.long
def test_cut_anywhere(tmp_path: Path) -> None:
    assert sum(runner.cuts for runner in run_random(range(25), Cutting, tmp_path)) > 50


@pytest.mark.parametrize("seed", range(6))
def test_shares_that_are_written_a_few_rows_at_a_time(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make(seed)
    query = register(case.query(), case.world, tmp_path, case.settings)
    expected = query.run(Cut("9")).answers
    monkeypatch.setattr("cqels_opt.operators.rows.CHUNK", 2)
    assert query.run(Cut("9", parts=2)).answers == expected
