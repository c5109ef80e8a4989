"""The interfaces of a driver: the runner of its tasks, the sink of its answers, the log of its trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from cqels_opt.errors import LimitError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.evaluate_task import EvaluateReport, EvaluateTask, FinishReport, Format
from cqels_opt.runtime.ingest import IngestReport, IngestTask
from cqels_opt.state.compaction import MergeResult, MergeTask
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.binding_slots import SlotFile


@dataclass(slots=True)
class StageReports:
    """The reports of the second stage, by program."""

    shares: dict[str, list[EvaluateReport]] = field(default_factory=dict)
    finished: dict[str, list[FinishReport]] = field(default_factory=dict)

    def add(self, reports: Iterable[tuple[str, EvaluateReport | FinishReport]]) -> None:
        """Adds reports, each with its program."""
        for name, report in reports:
            if isinstance(report, EvaluateReport):
                self.shares.setdefault(name, []).append(report)
            else:
                self.finished.setdefault(name, []).extend([report, *report.others])

    def complete(self) -> StageReports:
        """This, or LimitError if a task was given up, because its result is incomplete."""
        failed = [(name, report.failed) for name, reports in self.shares.items() for report in reports]
        failed += [(name, report.failed) for name, reports in self.finished.items() for report in reports]
        for name, reason in failed:
            if reason:
                raise LimitError(f"{name}: {reason}")
        return self

    @property
    def kept(self) -> list[SlotFile]:
        """The files of all reports that count from now on."""
        of_shares = [file for reports in self.shares.values() for report in reports for file in report.kept]
        return of_shares + [file for reports in self.finished.values() for report in reports for file in report.kept]

    def after(self, files: Sequence[SlotFile]) -> list[SlotFile]:
        """The files that count once this is done, of those before and its own."""
        replaced = {path for reports in self.finished.values() for report in reports for path in report.replaced}
        return [*(file for file in files if file.path not in replaced), *self.kept]


class Runner(Protocol):
    """Runs tasks: Spark, or this process. ``jobs`` counts the Spark jobs of the batch so far; ``begin`` resets it."""

    parallelism: int

    @property
    def repeats(self) -> bool:
        """Whether the task of a small batch can be evaluated again at the cost of its work alone, without another job."""

    @property
    def elsewhere(self) -> bool:
        """Whether tasks may run on machines that do not see the driver's copy of the state."""

    def begin(self, batch: int, queries: Sequence[str] = ()) -> None:
        """A batch of these queries begins."""

    def ingest(self, rows: Any, task: IngestTask) -> list[IngestReport]:
        """The first stage over a batch's rows (of the runner's own kind)."""

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """The second stage, each delta in ``parts`` shares."""

    def end(self) -> None:
        """The batch has no further stage, or has failed."""

    def close(self) -> None:
        """Releases what the runner holds, at the end of the run."""

    def merge(self, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        """Merges files of the state in the background, outside the cost of a batch; the result of each task."""

    @property
    def jobs(self) -> int:
        """Spark jobs since :meth:`begin`."""


class InputLog(Protocol):
    """What a run has read of its live sources, committed with each batch."""

    def restore(self, lengths: Mapping[str, int]) -> None:
        """Back to what is committed."""

    def take(self, reports: Iterable[IngestReport]) -> list[str]:
        """Adds what a batch has read; returns sentences about input that has changed since it was read."""

    def put(self) -> dict[str, int]:
        """The lengths to commit."""


class TraceLog(Protocol):
    """The log of trace records, cut back to the committed length like answers. ``digest`` covers all records."""

    @property
    def digest(self) -> str:
        """To commit with the length."""

    def restore(self, length: int, digest: str) -> None:
        """Cuts back to the committed length. CheckpointError if the rest does not have its committed digest."""

    def put(self, records: Sequence[TraceRecord]) -> int:
        """Appends records; returns the length to commit."""


@runtime_checkable
class ReadsByQuery(Protocol):
    """A sink of lines that needs the answers of each query in files of their own."""

    by_query: Literal[True]


class Sink(Protocol):
    """The sink of answers. ``lengths`` name the committed part; a sink that can be cut back is cut back to it before a batch."""

    format: Format

    @property
    def digests(self) -> Mapping[str, str]:
        """The digests of the output, to commit with the lengths; none for output that cannot be read again."""

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Restores the committed state. CheckpointError if the rest does not have its committed digest."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Emits the answers of a batch; returns the lengths to commit."""
