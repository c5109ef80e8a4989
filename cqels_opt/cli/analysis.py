"""``cqels-opt explain --analyze``: a query runs over its streams, and the plans of some batches are shown with what they took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from cqels_opt.cli.options import ExplainOptions, RunOptions, without_outputs
from cqels_opt.cli.run_results import Summary
from cqels_opt.errors import InputError
from cqels_opt.planner.explain import explained_now
from cqels_opt.runtime.driver import Driver
from cqels_opt.spark.scratch import scratch_folder
from cqels_opt.trace.figures import plural
from cqels_opt.trace.progress import Watcher
from cqels_opt.trace.records import TraceRecord

Inspect: TypeAlias = Callable[[Driver, Sequence[TraceRecord]], None]
"""Gets the driver and each batch's records when the batch is finished."""
Run: TypeAlias = Callable[[RunOptions, Watcher | None, Inspect | None], Summary]
"""Runs a query on one of the engines."""


def analyzed(options: ExplainOptions, run: Run) -> str:
    """Runs the query without showing answers; the plans of batch ``at``, of each batch whose number ``every`` divides, or of the last one.

    Raises:
        InputError: a stream has no end, or the run has no such batch.
    """
    given, alternatives = options.run, 1000 if options.all else 0
    if given.topics or given.follow or any(path.is_dir() for _, path in given.streams):
        raise InputError(
            "explain --analyze reads files from beginning to end: a live source (--follow, a folder, a topic) has no end"
        )
    found: list[str] = []

    def keep(driver: Driver, records: Sequence[TraceRecord]) -> None:
        number = driver.state.batch
        if options.at is None and options.every is None:
            found.clear()
        elif number != options.at and (options.every is None or number % options.every):
            return
        planners, mode = list(driver.planners.values()), driver.options.plan
        found.append(explained_now(planners, mode, options.format, alternatives, records))

    with scratch_folder("analyze") as folder:
        summary = run(without_outputs(given, folder / "answers.jsonl"), None, keep)
    if not found and not summary.batches:
        raise InputError("explain --analyze: no micro-batch has run, because the streams have no elements")
    if not found:
        raise InputError(f"--at {options.at}: the run has {plural(summary.batches, 'batch')}, numbered from 0")
    if options.format == "json" and options.every is not None:
        return "[" + ",\n".join(found) + "]"
    return "\n\n".join(found)
