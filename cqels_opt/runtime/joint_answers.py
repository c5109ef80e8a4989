"""One file for the answers of the queries that a task evaluates: one look-up of terms and one file per batch, not one per query."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from cqels_opt.operators.joint_lines import MOST, QueryAnswers, fits, joint_lines
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_output import Answers, by_instant
from cqels_opt.storage import checksum


class AnswerReport(Protocol):
    """What a report says of the file of its answers."""

    path: str
    times: Ints


class JointAnswers:
    """Holds answers until the task has evaluated all its queries, at most :data:`MOST` of them."""

    def __init__(self) -> None:
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

    def write(self, folder: Path, path: str) -> None:
        """Writes the file. The report of the first answers names it, for all of them; ``times`` are those of its lines."""
        if not self._held:
            return
        made = folder / path
        data, time, length = joint_lines(self._held)
        named = checksum.write_named(made, lambda file: file.write(data))
        self._reports[0].times = by_instant(time, length)
        self._reports[0].path = str(named.relative_to(folder))
