"""The work of a task within its limit of memory, timed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from time import perf_counter
from typing import Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from cqels_opt.errors import LimitError
from cqels_opt.operators import memory


class Limited(Protocol):
    """A task; ``memory`` are the bytes that a result may take (None: a share of the machine's)."""

    @property
    def memory(self) -> int | None:
        """The bytes."""


class TaskReport(Protocol):
    """The report of a task."""

    seconds: float
    failed: str


Task = TypeVar("Task", bound=Limited)
Reporting = TypeVar("Reporting", bound=TaskReport)
P = ParamSpec("P")
Work: TypeAlias = Callable[Concatenate[Task, P], Reporting]


def bounded(failed: type[Reporting]) -> Callable[[Work[Task, P, Reporting]], Work[Task, P, Reporting]]:
    """Limits work to the memory of its task. The report has the seconds that it took and, if it needed too much, why it was stopped."""

    def decorated(work: Work[Task, P, Reporting]) -> Work[Task, P, Reporting]:
        @wraps(work)
        def measured(task: Task, /, *args: P.args, **keywords: P.kwargs) -> Reporting:
            began = perf_counter()
            try:
                with memory.at_most(task.memory):
                    report = work(task, *args, **keywords)
            except (LimitError, MemoryError) as error:
                report = failed()
                report.failed = str(error) if isinstance(error, LimitError) else f"a task has not enough memory: {error}"
            report.seconds = perf_counter() - began
            return report

        return measured

    return decorated
