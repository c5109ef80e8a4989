"""Bushy parts over static relations, kept from step to step: the same rows and counts as when each step builds them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from local_runs import random_plan

from cqels_opt.bench.acyclic_queries import acyclic_query
from cqels_opt.operators import static_builds
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.row_limit import RowLimitError
from cqels_opt.operators.rows import concat, empty
from cqels_opt.planner.block_graph import graph_of
from cqels_opt.planner.calibration import SyntheticData
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Plan
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink

PLANS = 12


class AgainRunner(LocalRunner):
    """Runs random plans of each delta twice after the cache was emptied, and then the batch."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self.kept = self.stopped = 0

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """The plans, and then the batch."""
        for task in tasks:
            source = task.program.blocks[0].occurrences[0].name
            graph = graph_of(task.program.blocks[0])
            for plan in [random_plan(self._rng, graph, source) for _ in range(PLANS)]:
                static_builds._BUILT.clear()
                first = self._run_plan(task, source, plan)
                self.kept += len(static_builds._BUILT)
                assert self._run_plan(task, source, plan) == first, str(plan)
                self._compare_stops(task, source, plan, first[1])
        return super().evaluate(tasks, parts)

    def _compare_stops(self, task: EvaluateTask, source: str, plan: Plan, rows: Sequence[int]) -> None:
        """An operator of a kept part stops where one that is built does."""
        if not static_builds._BUILT:
            return
        for number, most in enumerate(rows):
            limits = tuple(most - 1.0 if at == number else math.inf for at in range(len(rows)))
            kept = self._stop(task, source, plan, limits)
            static_builds._BUILT.clear()
            built = self._stop(task, source, plan, limits)
            assert kept == built, (str(plan), number)
            self.stopped += built is not None
            self._run_plan(task, source, plan)

    def _stop(self, task: EvaluateTask, source: str, plan: Plan, limits: Sequence[float]) -> int | None:
        join = self._join(task, source, plan, limits)
        with suppress(RowLimitError):
            for _ in join.rows():
                pass
        return None if join.stopped is None else join.stopped.operator

    def _join(self, task: EvaluateTask, source: str, plan: Plan, limits: Sequence[float] = ()) -> DeltaJoin:
        (block,) = task.program.blocks
        of_source = {block.name: {source: tuple(limits)}} if limits else {}
        step = replace(task.step, plans={block.name: {source: plan}}, limits=of_source)
        return DeltaJoin(block, task.program.store, step, task.terms())

    def _run_plan(self, task: EvaluateTask, source: str, plan: Plan) -> tuple[Counter[tuple[int, ...]], list[int], list[int]]:
        (block,), join = task.program.blocks, self._join(task, source, plan)
        rows = concat([empty(block.output), *join.rows()])
        columns = [column.tolist() for column in (*rows.values(block.output), rows.start, rows.end, rows.n)]
        work = join.observed.work[source]
        return Counter(zip(*columns)), join.observed.operators[source], [operator.rows for operator in work]


@pytest.mark.parametrize("seed", range(6))
def test_a_kept_part_has_the_rows_and_counts_of_one_that_is_built(seed: int, tmp_path: Path) -> None:
    query, runner = acyclic_query(seed, delta=40, batches=2, most=5), AgainRunner(seed)
    prepared = query.prepared(tmp_path / "w")
    driver = prepared.driver(tmp_path / "state", LocalSink(), mode=PlannerOptions(view_selection=False), runner=runner)
    for number, rows in enumerate(prepared.chunks()):
        driver.batch(number, rows)
    assert runner.kept and runner.stopped


def test_parts_that_take_too_much_memory_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_builds, "WORDS", 2)
    query, runner = acyclic_query(0, delta=40, batches=2, most=5), AgainRunner(0)
    prepared = query.prepared(tmp_path / "w")
    driver = prepared.driver(tmp_path / "state", LocalSink(), mode=PlannerOptions(view_selection=False), runner=runner)
    for number, rows in enumerate(prepared.chunks()):
        driver.batch(number, rows)
    assert all(built.side.rows == 0 for built in static_builds._BUILT.values())


def test_calibration_builds_a_part_each_time(tmp_path: Path) -> None:
    static_builds._BUILT.clear()
    assert SyntheticData(tmp_path).counts(0, " » (r0)[?k]")[1] > 0
    assert not static_builds._BUILT
