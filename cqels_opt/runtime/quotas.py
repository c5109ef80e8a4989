"""Quotas: which queries of a run exceed their limits, and what happens to them and their answers.

A query that exceeds a limit fails with that micro-batch: from this batch on none of its answers are emitted, it is removed with the next
batch that takes changes (:mod:`~cqels_opt.runtime.query_catalog`), and the others continue. The decision is on disk before any output, so
a batch that runs again decides the same, even if time decided. A run ends if its only query fails, or if its other queries read the
output of the failed one.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.errors import LimitError, RunWarning, first_of
from cqels_opt.operators.answer_files import rows_by_query, without_queries
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.evaluate_task import EvaluateReport, FinishReport, Format
from cqels_opt.runtime.limits import Limits
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.state.result_store import is_result
from cqels_opt.storage import disk, documents, sealed_files
from cqels_opt.windows.binding_slots import SlotFile

NOTES = "failed.json"


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """The resource usage of the queries of a batch: the reports of their tasks, and the files of the state after it."""

    shares: Mapping[str, Sequence[EvaluateReport]]
    finished: Mapping[str, list[FinishReport]]
    files: Sequence[SlotFile]
    folder: Path

    def seconds(self, program: CompiledProgram) -> float:
        """The time of the slowest share plus that of the slowest part of the answers, because tasks run in parallel."""
        some = (self.shares.get(program.id, ()), self.finished.get(program.id, ()))
        return sum(max((report.seconds for report in reports), default=0.0) for reports in some)

    def bytes(self, program: CompiledProgram) -> int:
        """The bytes of its results and of the content of its windows, even if others share it."""
        shapes = {(shape.stream, shape.key) for shape in program.shapes}
        mine = (
            file.shape.split("/")[0] == program.id
            if is_result(file)
            else (file.stream, file.shape) in shapes or (file.kind in ("elements", "times") and file.stream in program.streams)
            for file in self.files
        )
        return sum(sealed_files.size(self.folder / file.path) for file, is_mine in zip(self.files, mine) if is_mine)


class Quotas:
    """Enforces the limits of the queries of a run. ``failures`` has the failed queries, with batch and reason."""

    def __init__(self, limits: Limits, folder: Path, catalog: QueryCatalog | None) -> None:
        self.limits, self.path, self.catalog = limits, folder / NOTES, catalog
        self.failures: dict[str, tuple[int, str]] = self._read()

    def resume(self, last: int) -> None:
        """A run continues after its batch ``last``: queries that failed in it go with the next one. Those that failed later go
        again when their batch has run again.
        """
        if self.catalog is not None and not self.catalog.decided(last + 1):
            for name in [name for name, (batch, _) in self.failures.items() if batch == last and name in self.catalog.names()]:
                self.catalog.remove(name)
        for name, (batch, why) in self.failures.items():
            warnings.warn(f"{name} failed at batch {batch}, and the run continues without it: {why}", RunWarning, stacklevel=2)

    def within(
        self, batch: int, programs: Sequence[CompiledProgram], usage: ResourceUsage, format: Format, feeding: Collection[str]
    ) -> None:
        """Removes the answers of queries that fail with this batch, or have failed and are still there. LimitError if the run cannot
        continue without them.
        """
        over: dict[str, str] = {}
        members = self._members(programs)
        again = self.failed_until(batch)
        for program in programs:
            over |= self._over(program, members[program.id], usage, format)
        if not over and not again:
            return
        gone = over.keys() | again
        for program in programs:
            if program.id in feeding and (named := [name for name in members[program.id] if name in over]):
                raise LimitError(f"{named[0]}, whose stream others read: {over[named[0]]}")
        if self.catalog is None or gone >= {name for names in members.values() for name in names}:
            reasons = {name: self.failures[name][1] for name in again} | over
            raise LimitError(f"batch {batch}: {'; '.join(f'{name}: {why}' for name, why in reasons.items())}")
        for name in [name for name in over if name not in again]:
            self.failures[name] = batch, over[name]
            warnings.warn(
                f"{name} failed at batch {batch}, and the others continue without it: {over[name]}", RunWarning, stacklevel=2
            )
        for name in gone & set(self.catalog.names()) if not self.catalog.decided(batch + 1) else ():
            self.catalog.remove(name)
        disk.write_atomically(self.path, documents.encode(NOTES, self.failures))
        for program in programs:
            if mine := [name for name in members[program.id] if name in gone]:
                self._withhold(program, mine, len(members[program.id]), usage, format)

    def failed_until(self, batch: int) -> set[str]:
        """The queries of the current programs that have failed with this batch or before it."""
        if not self.failures or self.catalog is None:
            return set()
        there = {member.id for member in self.catalog.sharing.members}
        return {name for name, (failed, _) in self.failures.items() if failed <= batch and name in there}

    def failed_with(self, batch: int, programs: Sequence[CompiledProgram]) -> dict[str, str]:
        """The programs of which queries have failed with this batch, and why, for the trace."""
        failed = {name: why for name, (number, why) in self.failures.items() if number == batch}
        if not failed:
            return {}
        members, found = self._members(programs), dict[str, str]()
        for program in programs:
            if mine := [name for name in members[program.id] if name in failed]:
                one = program.instances is None
                found[program.id] = failed[mine[0]] if one else first_of([f"{name}: {failed[name]}" for name in mine])
        return found

    def _members(self, programs: Sequence[CompiledProgram]) -> dict[str, list[str]]:
        """The names of the queries of each program."""
        if self.catalog is None:
            return {program.id: [program.id] for program in programs}
        return {unit.id: [member.id for _, member in unit.members] for unit in self.catalog.sharing.units}

    def _over(self, program: CompiledProgram, names: Sequence[str], usage: ResourceUsage, format: Format) -> dict[str, str]:
        """Queries that take too much. Those that share a plan share its time and its state."""
        limits, finished = self.limits, usage.finished.get(program.id, [])
        reasons = [*(share.failed for share in usage.shares.get(program.id, ())), *(report.failed for report in finished)]
        if failed := next(filter(None, reasons), ""):
            return dict.fromkeys(names, failed)
        size = usage.bytes(program) if limits.bytes is not None else 0
        if (broken := limits.broken(seconds=usage.seconds(program), bytes=size)) is not None:
            return dict.fromkeys(names, broken)
        rows = sum(report.answers for report in finished)
        if (broken := limits.broken(rows=rows)) is None:
            return {}
        if program.instances is None:
            return dict.fromkeys(names, broken)
        counted = rows_by_query([usage.folder / report.path for report in finished if report.answers], format)
        return {name: why for name in names if (why := limits.broken(rows=counted[name])) is not None}

    def _withhold(self, program: CompiledProgram, names: Sequence[str], of: int, usage: ResourceUsage, format: Format) -> None:
        for report in usage.finished.get(program.id, []):
            if not report.answers:
                continue
            if len(names) == of:
                report.answers = 0
                continue
            path, report.answers, report.times = without_queries(usage.folder / report.path, format, frozenset(names))
            report.path = str(path.relative_to(usage.folder))

    def _read(self) -> dict[str, tuple[int, str]]:
        if not self.path.exists():
            return {}
        with documents.naming_damage(self.path):
            found = documents.decode(NOTES, disk.read(self.path))
            return {str(name): (int(batch), str(reason)) for name, (batch, reason) in found.items()}


__all__ = ["Quotas", "ResourceUsage"]
