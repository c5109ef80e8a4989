"""The engine with hindsight: each batch uses the plans that produce the fewest rows in this batch, and planning takes no time.

The rows of every plan are measured before the run (:mod:`cqels_opt.bench.drift`): exactly, over all left-deep plans without cross
products and the bushy plans of the adaptive run. Plans are compared by rows, because milliseconds differ from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cqels_opt.bench.contenders import Contender, Done, Task, UnsupportedError
from cqels_opt.bench.contenders.engine import prepared, steps
from cqels_opt.bench.drift import measure, plans_of
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.plans.plan_text import parse_plan
from cqels_opt.runtime.driver import Driver

MOST = 10
"""Measuring every connected set of a block with more relations takes too long."""


def run(task: Task, folder: Path) -> Iterator[Done | None]:
    """Measure all plans, then run each batch with its best plans."""
    query = prepared(task)
    blocks = QueryPlanner(query.program, PlannerOptions()).blocks.values()
    if any(len(block.optimizer.graph.relations) > MOST for block in blocks):
        raise UnsupportedError(f"a block has more than {MOST} relations: hindsight would take too long")
    adaptive = query.run("adaptive", PlannerOptions(view_selection=False))
    measured = measure(query, plans_of(adaptive))

    def take(driver: Driver, number: int) -> None:
        best = {source: parse_plan(text) for source, text in measured.hindsight(slice(number, number + 1)).items()}
        for planner in driver.planners.values():
            for block in planner.blocks.values():
                block.optimizer = block.optimizer_of(block.block, {source: best[source] for source in block.sources})

    yield from steps(task, folder, PlannerOptions("first", split=False, view_selection=False), before=take, decides=False)


CONTENDERS = (
    Contender("clairvoyant", "the engine with the plans that produce the fewest rows in each batch, known in advance", run),
)
