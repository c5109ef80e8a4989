"""Static data and queries of the local engine: both are prepared by this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cqels_opt.errors import CqelsOptError
from cqels_opt.lod.load import LoadReport, Progress, load, performed
from cqels_opt.lod.loading import Outcome, Task
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.rdf.static import StaticSource
from cqels_opt.storage import disk


class ThisProcess:
    """Runs the tasks of a large load one after the other, each in the memory that the cut of the load allows."""

    cores = 1

    def run(self, name: str, tasks: Sequence[Task], progress: Progress | None = None) -> list[Outcome]:
        """The outcomes of tasks, in order."""
        outcomes: list[Outcome] = []
        losers: list[str] = []
        failure: CqelsOptError | None = None
        for number, task in enumerate(tasks, 1):
            try:
                outcomes.append(performed(task))
            except CollisionError as error:  # the losers of all tasks get second ids at once
                losers += error.losers
            except CqelsOptError as error:
                failure = failure or error
            if progress is not None:
                progress(number, len(tasks))
        if losers:
            raise CollisionError(losers)
        if failure is not None:
            raise failure
        return outcomes


def loaded(sources: Sequence[StaticSource], target: Path | str, **options: Any) -> LoadReport:
    """Loads static data without Spark; see :func:`cqels_opt.lod.load.load`."""
    return load(ThisProcess(), sources, target, **options)


def compiled(work: Callable[[], CompiledProgram]) -> CompiledProgram:
    """Compiles a query, whose files are then durable."""
    found = work()
    disk.sync_written(None)
    return found
