"""Runs tasks in this process, one after the other: the base of the local engine's pool, and the runner of property tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.chunks import Piece, read, shares
from cqels_opt.runtime.evaluate import Fresh, evaluate, finish
from cqels_opt.runtime.evaluate_task import EvaluateReport, EvaluateTask, FinishReport, Format, finish_parts
from cqels_opt.runtime.growing_files import LinesBatch, ingest_lines
from cqels_opt.runtime.ingest import IngestReport, IngestTask, ingest
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.joint_answers import JointAnswers
from cqels_opt.runtime.line_sinks import in_order_of_time, pieces
from cqels_opt.runtime.live_files import FileBatch, ingest_files
from cqels_opt.state.compaction import MergeResult, MergeTask, merge_each

T = TypeVar("T")


class LocalRunner:
    """Runs tasks one after the other. ``split`` shares the rows of a batch and its deltas as a cluster would."""

    repeats, elsewhere = True, False

    def __init__(self, split: int = 1) -> None:
        self.parallelism = split
        self._batch = 0

    def begin(self, batch: int, queries: Sequence[str] = ()) -> None:
        """Notes the batch."""
        self._batch = batch

    @property
    def jobs(self) -> int:
        """Always 0: there is no Spark."""
        return 0

    def ingest(self, rows: pa.Table | Path | FileBatch | LinesBatch, task: IngestTask) -> list[IngestReport]:
        """A table in as many tasks as ``split``, a file of elements in tasks of enough rows, new lines and files in one."""
        if isinstance(rows, FileBatch):
            return [ingest_files(rows, task, "t")]
        if isinstance(rows, LinesBatch):
            return [ingest_lines(rows, task, "t")]
        if isinstance(rows, Path):
            pieces = shares(rows, self.parallelism)
            task = replace(task, tasks=len(pieces))
            return self._run([partial(_ingest_piece, piece, task, f"t{number}") for number, piece in enumerate(pieces)])
        size, task = -(-rows.num_rows // self.parallelism) or 1, replace(task, tasks=self.parallelism)
        return self._run([partial(ingest, rows.slice(i, size), task, f"t{i}") for i in range(0, rows.num_rows, size)])

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """One task for all, or one task per share and then one per part of the answers."""
        done = StageReports()
        if parts == 1:
            done.add(whole_batch(tasks, "t", in_memory=True))
            return done
        for of_share in self._run([partial(share_of_batch, tasks, f"t{part}", part, parts) for part in range(parts)]):
            done.add(of_share)
        finished = [partial(part_of_answers, tasks, f"t{part}", part, parts, done.shares) for part in range(parts)]
        for of_part in self._run(finished):
            done.add(of_part)
        return done

    def _run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """The results of functions that do not depend on each other, in order."""
        return [work() for work in works]

    def end(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is held."""

    def merge(self, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        """One after the other."""
        return list(merge_each(tasks))


def _ingest_piece(piece: Piece, task: IngestTask, name: str) -> IngestReport:
    return ingest(read(piece), task, name)


def share_of_batch(tasks: Sequence[EvaluateTask], name: str, part: int, parts: int) -> list[tuple[str, EvaluateReport]]:
    """The first half of the second stage: a share of the deltas of all queries."""
    return [(task.program.id, evaluate(task, name, part, parts, None)) for task in tasks]


def part_of_answers(
    tasks: Sequence[EvaluateTask], name: str, part: int, parts: int, shares: Mapping[str, Sequence[EvaluateReport]]
) -> list[tuple[str, FinishReport]]:
    """The second half: a part of the answers of each query, from the reports of all shares, if the query has that part and succeeded."""
    found = []
    for task in tasks:
        reports, spread = shares[task.program.id], finish_parts(task, parts)
        if part < spread and not any(report.failed for report in reports):
            fresh = [file for report in reports for file in report.fresh]
            found.append((task.program.id, finish(task, name, fresh, part, spread)))
    return found


def whole_batch(
    tasks: Sequence[EvaluateTask], name: str, in_memory: bool = False
) -> list[tuple[str, EvaluateReport | FinishReport]]:
    """Both halves of the second stage of all queries in one task: their reports, with the program of each.

    ``in_memory``: the sink is in this process, so lines of answers need no file.
    """
    joint = JointAnswers(in_memory)
    name += f"a{tasks[0].attempt}" if tasks and tasks[0].attempt else ""
    reports = [(task.program.id, report) for task in tasks for report in whole(task, name, joint if task.joint else None)]
    if tasks:
        joint.write(tasks[0].step.path, f"answers/{tasks[0].step.batch:08d}-{tasks[0].program.id}-{name}-joint.jsonl")
    return reports


def whole(task: EvaluateTask, name: str, joint: JointAnswers | None = None) -> tuple[EvaluateReport, FinishReport]:
    """Both halves of the second stage in one task; of a delta that must be planned again the first half only."""
    fresh: Fresh = {}
    report = evaluate(task, name, 0, 1, fresh)
    return report, FinishReport() if report.failed or report.stopped else finish(task, name, fresh, 0, 1, joint)


class LocalSink:
    """Keeps the lines of answers in memory, for tests and benchmarks. Bytes of answers become texts when they are asked for."""

    format: Format = "jsonl"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._bytes: list[bytes] = []  # of each batch since the lines were asked for
        self._count = 0  # of their lines

    @property
    def lines(self) -> list[str]:
        """The lines so far; may be changed."""
        for answers in self._bytes:
            self._lines += str(answers, "utf-8").split("\n")[:-1]  # str.splitlines ends lines at U+2028 as well
        self._bytes, self._count = [], 0
        return self._lines

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Back to the committed lines."""
        del self.lines[lengths.get("lines", 0) :]

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Appends the lines of a batch, in order of time."""
        answers = b"".join(pieces(in_order_of_time(chunks, folder)))
        self._bytes.append(answers)
        self._count += answers.count(b"\n")
        return {"lines": len(self._lines) + self._count}
