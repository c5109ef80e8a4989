"""Which files later steps can still need (DESIGN §3: a slot is dropped when it has ended before the last reported instant)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import NO_INSTANT
from cqels_opt.state.commit_log import Commit
from cqels_opt.state.pending_counts import KIND as PENDING
from cqels_opt.windows.binding_slots import SlotFile, rank_elements
from cqels_opt.windows.instants import retained_from
from cqels_opt.windows.intervals import FOREVER
from cqels_opt.windows.kinds import kind_of


@dataclass(frozen=True, slots=True)
class RetainedFiles:
    """The retained files, the number of elements dropped from each stream's tables, and the time from which each stream is needed."""

    files: list[SlotFile]
    dropped: dict[str, int]
    bounds: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class Retention:
    """The rule for a set of programs. ``tables`` are the streams with windows that count elements."""

    folder: Path
    programs: Sequence[CompiledProgram]
    tables: frozenset[str]
    streams: tuple[str, ...]  # all streams of the run, also those that no program reads

    def after(self, files: Sequence[SlotFile], reported: Mapping[str, int], state: Commit, frontier: int) -> RetainedFiles:
        """What is retained after a step that ended at ``frontier``; ``reported`` has the last reported instant of each program."""
        streams = tuple(dict.fromkeys((*self.streams, *(s for p in self.programs for s in p.streams))))
        dropped = dict(state.dropped)
        bounds: dict[str, int | None] = {}
        first = state.first if state.first is not None else frontier
        for stream in streams:
            reported_at = {p.id: min(reported.get(p.id, first), frontier) for p in self.programs if stream in p.streams}
            bounds[stream] = self._bound(stream, reported_at) if reported_at else frontier  # no program reads it
            if stream in self.tables:
                bounds[stream] = self._counted(stream, files, bounds[stream], min(reported_at.values()), dropped)
        known = [bound for bound in bounds.values() if bound is not None]
        lowest = min(known, default=None) if len(known) == len(bounds) else None
        # A page of terms without a stream has terms of answers, which come from all streams.
        needed_from = {**bounds, "": lowest}
        live = [
            f
            for f in files
            if (f.greatest > frontier if f.kind == PENDING else self._needed(f, reported, needed_from.get(f.stream)))
        ]
        return RetainedFiles(live, dropped, bounds)

    def _needed(self, file: SlotFile, reported: Mapping[str, int], bound: int | None) -> bool:
        if file.kind == "result":
            return file.greatest > reported.get(file.shape.split("/")[0], int(NO_INSTANT))
        return bound is None or file.greatest >= bound

    def _bound(self, stream: str, reported_at: Mapping[str, int]) -> int | None:
        """The time from which programs need elements after they reported up to these instants; None: they need all."""
        alike = {(p.windows, p.report.key, reported_at[p.id]): p for p in self.programs if p.id in reported_at}
        found = [retained_from(windows, p.report, stream, reported) for (windows, _, reported), p in alike.items()]
        known = [bound for bound in found if bound is not None]
        return min(known) if len(known) == len(found) else None

    def _counted(
        self, stream: str, files: Sequence[SlotFile], bound: int | None, reported_at: int, dropped: dict[str, int]
    ) -> int | None:
        """For windows that count elements: the time of the first element that the deepest of them needs at the last reported instant.

        Tables are dropped whole, so a table with that time stays, too. Elements that were in a window then are needed for the answers
        that report their expiry.
        """
        deepest = max(kind_of(w).depth for p in self.programs for w in p.windows if w.stream == stream)
        tables = [f for f in files if f.kind == "elements" and f.stream == stream]
        passed = rank_elements(self.folder, tables, 0, reported_at).times
        if len(passed) <= deepest or bound is None:
            return None
        limit = min(bound, int(passed[-deepest]))
        while (lower := min([limit, *(f.least for f in tables if f.greatest >= limit)])) < limit:
            limit = lower
        leaving = [f for f in tables if f.greatest < limit]
        dropped[stream] = dropped.get(stream, 0) + len(rank_elements(self.folder, leaving, 0, int(FOREVER)).times)
        return limit
