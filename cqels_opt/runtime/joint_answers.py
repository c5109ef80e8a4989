"""The lines of answers that a task puts together at its end: those of its queries with one look-up of terms and in one file per batch,
not one per query. Where the sink is in the process of the task, they stay in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from cqels_opt.operators.joint_lines import MOST, QueryAnswers, fits, joint_lines
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_output import Answers, by_instant
from cqels_opt.storage import checksum


class AnswerReport(Protocol):
    """What a report says of the lines of its answers: where they are, and how many bytes each instant has."""

    path: str
    lines: pa.Buffer | None
    times: Ints


class JointAnswers:
    """Holds answers until the task has evaluated all its queries, at most :data:`MOST` of them.

    ``in_memory``: the reports have the lines themselves, instead of the name of a file.
    """

    def __init__(self, in_memory: bool) -> None:
        self._in_memory = in_memory
        self._held: list[QueryAnswers] = []
        self._reports: list[AnswerReport] = []
        self._total = 0

    def takes(self, found: Answers) -> bool:
        """Whether these answers can be held; otherwise they need a file of their own."""
        return fits(found) and self._total + found.total <= MOST

    def hold(self, held: Iterable[tuple[QueryAnswers, AnswerReport]]) -> None:
        """Adds answers, with the report that names their file."""
        for one, report in held:
            self._held.append(one)
            self._reports.append(report)
            self._total += one.found.total

    def keeps(self, found: Answers) -> bool:
        """Whether the lines of these answers are to stay in memory. They then count as held."""
        keeps = self._in_memory and self.takes(found)
        self._total += found.total if keeps else 0
        return keeps

    def write(self, folder: Path, path: str) -> None:
        """Makes the lines. The report of the first answers has them, for all of them; ``times`` are those of its lines."""
        if not self._held:
            return
        data, time, length = joint_lines(self._held)
        report = self._reports[0]
        report.times = by_instant(time, length)
        if self._in_memory:
            report.lines = data
        else:
            report.path = str(checksum.write_named(folder / path, lambda file: file.write(data)).relative_to(folder))
