"""The engine without Spark, under its plan modes: the same operators and the same driver, in this process."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cqels_opt.bench.answers import answers_of_lines
from cqels_opt.bench.contenders import Contender, Done, Run, Task
from cqels_opt.bench.local import Prepared, compiled
from cqels_opt.planner.background_jobs import THREAD
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.view_selection import Design, design_of
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.runtime.run_state import COMMIT_EVERY, IN_THREADS
from cqels_opt.trace.records import TraceRecord

SHARE = ("statistics", "optimize")
"""The phases of the report's shaded areas: "updating the cardinality of the input data, re-computing the costs of the query plans, and
deciding on the optimal plan" (§6.2)."""

Before = Callable[[Driver, int], None]
"""A change of the driver before a batch, while the clock is stopped."""


def prepared(task: Task) -> Prepared:
    """The query, compiled once for all contenders over the same static data."""
    key = hashlib.sha256(f"{task.store}\n{task.text}".encode()).hexdigest()[:16]
    folder = task.shared / f"compiled-{key}"
    return Prepared(task.query, compiled(task.query, task.text, task.store, folder), task.replay, folder)


def wait_for_background_jobs() -> None:
    """Waits until the background jobs of all drivers in this process have ended: none runs in another contender's turn."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()


def steps(
    task: Task,
    folder: Path,
    mode: PlannerOptions,
    begin: Before | None = None,
    before: Before | None = None,
    decides: bool = True,
) -> Iterator[Done | None]:
    """The driver, batch by batch. Without ``decides``, the time of statistics and of plan choice is subtracted."""
    sink = LocalSink()
    driver = prepared(task).driver(folder / "state", sink, mode=mode, commit_every=COMMIT_EVERY, background=IN_THREADS)
    if begin is not None:
        begin(driver, -1)
    for number, chunk in enumerate(task.chunks):
        if before is not None:
            before(driver, number)
        yield None
        put, began = len(sink.lines), time.perf_counter()
        records = driver.batch(number, chunk)
        took, parts = 1000 * (time.perf_counter() - began), phases(records)
        wait_for_background_jobs()
        milliseconds = took if decides else took - parts.pop("optimize")
        yield Done(answers_of_lines(sink.lines[put:]), milliseconds, parts)


def phases(records: list[TraceRecord]) -> dict[str, float]:
    """The milliseconds of a batch by the trace's phases; ``optimize`` with the statistics, as the report counts it."""
    found: dict[str, float] = {}
    for record in records:
        for phase, ms in record.ms.to_json().items():
            name = "optimize" if phase in SHARE else phase
            found[name] = found.get(name, 0.0) + ms
    return found


def mode(name: str) -> Run:
    """A plan mode of the engine."""
    return partial(steps, mode=PlannerOptions(name))


def whole(driver: Driver, _: int) -> None:
    """Join all connected static patterns in advance, whatever their size: the report's pre-processing (§4.2)."""
    for planner in driver.planners.values():
        for block in planner.blocks.values():
            catalogue = block.catalogue
            design = _components(len(block.block.parts), catalogue.adjacent)
            if not block.block.parts or design == catalogue.default:
                continue
            for group in catalogue.missing(design):
                assert catalogue.folder is not None
                catalogue.add(catalogue.make(group, catalogue.folder))
            block.use_design(design)
            block.optimizer = block.optimizer_of(block.block, driver.options.plan.mode)


def _components(parts: int, adjacent: Sequence[RelationSet]) -> Design:
    """The parts that are connected, as groups."""
    groups: list[int] = []
    for part in range(parts):
        reached = 1 << part | adjacent[part]
        together = [group for group in groups if group & reached]
        groups = [group for group in groups if not group & reached] + [sum(together) | 1 << part]
    return design_of(groups)


CONTENDERS = (
    Contender("adaptive", "the engine: the currently cheapest plan for each delta source", mode("adaptive")),
    Contender("static", "the engine with the plans that were cheapest after the first batch, never changed", mode("static")),
    Contender("first", "the engine with joins in the written order", mode("first")),
    Contender("worst", "the engine with the most expensive join order without cross products", mode("worst")),
    Contender(
        "sub-results",
        "the report's pre-processing alone: static patterns joined in advance, joins in the written order, no optimizer",
        partial(steps, mode=PlannerOptions("first", split=False, view_selection=False), begin=whole, decides=False),
    ),
)
