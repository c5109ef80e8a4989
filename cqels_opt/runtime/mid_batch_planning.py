"""Planning in mid-batch: a delta that an operator has stopped is planned again with what was seen, and evaluated from its beginning.

Only small batches do this, whose deltas are evaluated by one task: it stops where an operator exceeds the limit on its rows, reports what
the operators gave until then, and writes no answers. Its program is evaluated again with the new plan; other programs of the batch are not.
The files that a stopped attempt wrote do not count, and the next attempt has other names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cqels_opt.planner.row_limits import MOST_STOPS
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.runtime.evaluate_task import EvaluateReport, EvaluateTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.run_state import RunState


def evaluate_in_attempts(driver: RunState, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
    """The second stage, each delta in ``parts`` shares; of one share, deltas may be stopped and planned again.

    Queries whose plans may give more rows than the limit on bounds allows are not evaluated.
    """
    tasks = [_admitted(driver, task) for task in tasks]
    if parts > 1 or not driver.runner.repeats:
        return driver.evaluate(tasks, parts)
    done = StageReports()
    for attempt in range(MOST_STOPS + 1):
        tasks = [_limited(driver, task, attempt < MOST_STOPS) for task in tasks]
        found = driver.evaluate(tasks, parts)
        stopped = {name: report for name, shares in found.shares.items() for report in shares if report.stopped is not None}
        done.shares |= {name: shares for name, shares in found.shares.items() if name not in stopped}
        done.finished |= {name: finished for name, finished in found.finished.items() if name not in stopped}
        if not stopped:
            break
        driver.deletion.begin(file.path for report in stopped.values() for file in (*report.fresh, *report.kept))
        again = [replace(task, attempt=attempt + 1) for task in tasks if task.program.id in stopped]
        tasks = [_planned_again(driver, task, stopped[task.program.id]) for task in again]
    return done


def _admitted(driver: RunState, task: EvaluateTask) -> EvaluateTask:
    """The task, or one that is refused because an operator of its plans may give too many rows."""
    limits = driver.options.limits
    if limits.bound is None or task.backfill is not None:
        return task
    return replace(task, refused=limits.broken(bound=driver.planners[task.program.id].greatest_bound()) or "")


def _limited(driver: RunState, task: EvaluateTask, limited: bool) -> EvaluateTask:
    """The task with the limits on the rows of its operators, or with none; plans that shuffle rows run in several tasks, without limits."""
    limits = driver.planners[task.program.id].row_limits() if limited and not task.step.joins else {}
    return replace(task, step=replace(task.step, limits=limits)) if limits or task.step.limits else task


def _planned_again(driver: RunState, task: EvaluateTask, report: EvaluateReport) -> EvaluateTask:
    """The task with another plan for the delta that was stopped."""
    assert report.stopped is not None
    planner = driver.planners[task.program.id]
    while True:
        try:
            plans = planner.replan(report.stopped, report.observed, replace(task.step, displaced=driver.scheme.displaced))
            return _admitted(driver, replace(task, step=replace(task.step, plans=plans, joins=planner.physical(1))))
        except CollisionError as error:  # of a term that an expression makes from sampled rows
            driver.displace(error)
