"""Progress bars on standard error, and the observers of finished batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from cqels_opt.trace.records import TraceRecord

Watcher: TypeAlias = Callable[[Sequence[TraceRecord]], None]
"""Gets each batch's records when the batch is finished."""


@contextmanager
def batches_progress(batches: int, done: int, hidden: bool) -> Iterator[Watcher]:
    """A bar of batches on standard error, if that is a terminal and not ``hidden``; call it with each batch's records."""
    console = Console(stderr=True)
    columns = (TextColumn("batches"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=hidden or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("batches", total=batches, completed=done, elements=0)
        elements = 0

        def advance(records: Sequence[TraceRecord]) -> None:
            nonlocal elements
            elements += max((record.elements for record in records), default=0)
            bar.update(task, advance=1, elements=elements)

        yield advance


class _Rate(ProgressColumn):
    """Elements per second since the start."""

    def render(self, task: Task) -> Text:
        """The text of the column."""
        return Text(f"{task.fields['elements'] / task.elapsed:,.0f} elements/s" if task.elapsed else "")


@contextmanager
def bytes_progress() -> Iterator[Callable[[int, int], None]]:
    """A bar of bytes; call it with the bytes read and the total."""
    console = Console(stderr=True)
    columns = (TextColumn("bytes"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("bytes", total=None)
        yield lambda read, of: bar.update(task, completed=read, total=of)


def watching(*watchers: Watcher | None) -> Watcher:
    """One watcher that calls all given ones."""

    def batch(records: Sequence[TraceRecord]) -> None:
        for watch in watchers:
            if watch is not None:
                watch(records)

    return batch
