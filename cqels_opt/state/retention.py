"""Which files later steps can still need (DESIGN §3: a slot is dropped once its end is behind the last reported instant)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import NOWHEN
from cqels_opt.state.commit_log import Commit
from cqels_opt.state.pending_counts import KIND as PENDING
from cqels_opt.windows.binding_slots import SlotFile, rank_elements
from cqels_opt.windows.instants import retained_from
from cqels_opt.windows.intervals import FOREVER
from cqels_opt.windows.kinds import kind_of


@dataclass(frozen=True, slots=True)
class RetainedFiles:
    """The files that stay; the elements that have gone from each stream's tables; the time from which on each stream is needed."""

    files: list[SlotFile]
    dropped: dict[str, int]
    bounds: dict[str, int | None]


@dataclass(frozen=True, slots=True)
class Retention:
    """The rule for a set of programs. ``tables`` are the streams with windows of the last n elements."""

    folder: Path
    programs: Sequence[CompiledProgram]
    tables: frozenset[str]
    streams: tuple[str, ...] = ()  # those that come, whether or not somebody reads them

    def after(self, files: Sequence[SlotFile], reported: Mapping[str, int], state: Commit, frontier: int) -> RetainedFiles:
        """What stays after a step that ended at ``frontier`` and reported, a program, up to ``reported``."""
        streams = tuple(dict.fromkeys((*self.streams, *(s for p in self.programs for s in p.streams))))
        dropped = dict(state.dropped)
        bounds: dict[str, int | None] = {}
        first = state.first if state.first is not None else frontier
        for stream in streams:
            looked_at = {p.id: min(reported.get(p.id, first), frontier) for p in self.programs if stream in p.streams}
            bounds[stream] = self._bound(stream, looked_at) if looked_at else frontier  # nobody reads it
            if stream in self.tables:
                bounds[stream] = self._of_last(stream, files, bounds[stream], min(looked_at.values()), dropped)
        known = [bound for bound in bounds.values() if bound is not None]
        lowest = min(known, default=None) if len(known) == len(bounds) else None
        # Pages of terms may be of no one stream: earlier versions wrote those of all streams together.
        needed_from = {**bounds, "": lowest}
        live = [
            f
            for f in files
            if (f.greatest > frontier if f.kind == PENDING else self._needed(f, reported, needed_from.get(f.stream)))
        ]
        return RetainedFiles(live, dropped, bounds)

    def _needed(self, file: SlotFile, reported: Mapping[str, int], bound: int | None) -> bool:
        if file.kind == "result":
            return file.greatest > reported.get(file.shape.split("/")[0], int(NOWHEN))
        return bound is None or file.greatest >= bound

    def _bound(self, stream: str, looked_at: Mapping[str, int]) -> int | None:
        """The time from which on elements are needed by programs that have been looked at up to these instants; None: all are."""
        found = [retained_from(p.windows, p.report, stream, looked_at[p.id]) for p in self.programs if p.id in looked_at]
        known = [bound for bound in found if bound is not None]
        return min(known) if len(known) == len(found) else None

    def _of_last(
        self, stream: str, files: Sequence[SlotFile], bound: int | None, looked_at: int, dropped: dict[str, int]
    ) -> int | None:
        """For last-n windows: the time of the n-th last element at the instant last looked at, and of no table that straddles it.

        Where a window moves by m elements, of the (n + m)-th last. What was there then may still have to be named as it goes.
        """
        deepest = max(kind_of(w).depth for p in self.programs for w in p.windows if w.stream == stream)
        tables = [f for f in files if f.kind == "elements" and f.stream == stream]
        passed = rank_elements(self.folder, tables, 0, looked_at).times
        if len(passed) <= deepest or bound is None:
            return None
        limit = min(bound, int(passed[-deepest]))
        while (lower := min([limit, *(f.least for f in tables if f.greatest >= limit)])) < limit:
            limit = lower
        going = [f for f in tables if f.greatest < limit]
        dropped[stream] = dropped.get(stream, 0) + len(rank_elements(self.folder, going, 0, int(FOREVER)).times)
        return limit
