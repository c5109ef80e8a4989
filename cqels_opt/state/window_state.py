"""The content of a window that joins read in a step: an old part in indexed runs, and a new part.

Old rows are in time slices (see time_slices.py), which are mapped, and so are large slots (see slot_indexes.py). A worker has all other
rows in memory, in runs that it merges when they are of similar size. So a probe reads few runs, and a worker has few rows in memory,
however long the window is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from cqels_opt.operators.blocks import PatternOccurrence
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import RANK, Ints, Rows, concat
from cqels_opt.rdf.ids import integer_ids
from cqels_opt.state.slot_indexes import INDEX, index_of, slot_run
from cqels_opt.state.sorted_runs import SortedRun, ends_at, joined, run_of
from cqels_opt.state.time_slices import TIME_SLICE, covered_until, time_slice
from cqels_opt.state.union_window_state import CopiedNewRows, UnionWindowState
from cqels_opt.state.worker_cache import relation as static_relation
from cqels_opt.storage.compaction_policy import runs_to_merge
from cqels_opt.storage.shared_cache import SharedCache, cached
from cqels_opt.windows.binding_slots import SlotFile, rank_elements, read_span
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER
from cqels_opt.windows.kinds import kind_of
from cqels_opt.windows.window_kind import CountWindowKind

Key = tuple[str, "int | None", PatternOccurrence]

TIME = "time"
"""The variable of the elements' times in a content that occurrences share."""

COPIED = 1 << 15
"""At most as many new rows are copied at once and held; of more each reader copies what it reads."""

HELD_RATIO = 8
"""The ratio of runs in memory that are merged: to merge rows and their indexes takes less time than to probe another run."""


class _Arrived(NamedTuple):
    """Rows of a span of time: large slots by path, mapped, and all others as a run in memory."""

    rest: SortedRun | None = None
    slots: Mapping[str, SortedRun] = {}

    @property
    def runs(self) -> list[SortedRun]:
        """All runs."""
        return [*self.slots.values(), *([] if self.rest is None else [self.rest])]


class WindowState:
    """The rows of one shape under one window: ``old`` runs with t <= F0, and ``new`` rows of the step."""

    def __init__(self, occurrence: PatternOccurrence) -> None:
        self.occurrence = occurrence
        self._instant = int(BEFORE_TIME)  # rows that have ended by then do not count
        self._upto = self._new_upto = self._covered_until = int(BEFORE_TIME)
        self._held: list[SortedRun] = []  # in memory, later than the time slices
        self._slots: dict[str, SortedRun] = {}  # large slots, mapped, by path; later than the time slices
        self._arrived = _Arrived()  # the new rows
        self._new: Rows | None = None  # all of them, once they have been read
        self._mapped: list[SortedRun] = []
        self._parts: dict[str, SortedRun] = {}  # in memory: the valid rows of time slices of which most rows have expired

    def advance(self, step: EvaluationStep) -> None:
        """Moves the content to a step. If it is not the step after the last one, the slots are read again."""
        slices = step.select(TIME_SLICE, self.occurrence.shape.stream, self.occurrence.shape.key)
        mapped = covered_until(slices)
        if (self._upto, self._new_upto, self._covered_until) == (step.after, step.upto, mapped):
            return
        if self._new_upto == step.after and self._upto <= step.after:
            self._append(self._arrived)
            self._upto = step.after
        halved = any(run.first <= mapped < run.last for run in self._slots.values())
        if self._upto > step.after or mapped < self._covered_until or halved:
            self._upto, self._held, self._slots = int(BEFORE_TIME), [], {}
        self._instant, self._covered_until = step.ended, mapped
        self._map(step, slices)
        self._held = [run if run.first > mapped else run.since(_behind(run, mapped)) for run in self._held if run.last > mapped]
        if max(self._upto, mapped) < step.after:
            self._append(self._read(step, max(self._upto, mapped), step.after))
        self._upto = step.after
        self._arrived = self._read(step, step.after, step.upto)
        self._new_upto = step.upto
        self._new = None
        self._held = [run for run in self._held if ends_at(self.occurrence, run.last) > self._instant]
        self._slots = {
            path: run
            for path, run in self._slots.items()
            if run.last > mapped and ends_at(self.occurrence, run.last) > self._instant
        }
        self._compact()

    def _append(self, arrived: _Arrived) -> None:
        self._held += [] if arrived.rest is None else [arrived.rest]
        self._slots |= arrived.slots

    def _compact(self) -> None:
        while (some := runs_to_merge([len(run) for run in self._held], ratio=HELD_RATIO)) is not None:
            oldest = self._held[some.start]
            self._held[some] = [joined(self._held[some], oldest.first_valid(self.occurrence, self._instant))]

    def _map(self, step: EvaluationStep, slices: list[SlotFile]) -> None:
        """Maps the time slices with valid rows. If most rows of one have expired, only its valid rows are read, into memory."""
        before = self._mapped  # until the end, so that those that stay are not opened again
        parts, self._parts, self._mapped = self._parts, {}, []
        for file in slices:
            if ends_at(self.occurrence, file.greatest) <= self._instant or file.greatest <= self.occurrence.since:
                continue
            run = parts.get(file.path) or time_slice(step.path / file.path)
            run = run.behind(self.occurrence.since)
            valid_from = run.first_valid(self.occurrence, self._instant)
            if 2 * valid_from > len(run):
                run = run.since(valid_from)
            if len(run) < file.rows:
                self._parts[file.path] = run
            self._mapped.append(run)
        del before

    def _read(self, step: EvaluationStep, after: int, upto: int) -> _Arrived:
        shape, after = self.occurrence.shape, max(after, min(self.occurrence.since, upto))
        files = step.select("slot", shape.stream, shape.key)
        indexed = {file.path for file in step.select(INDEX, shape.stream, shape.key)}
        mapped, rest = {}, []
        for file in files:
            whole = after < file.least and file.greatest <= upto
            if indexed and whole and not self.occurrence.distinct and index_of(file).path in indexed:
                mapped[file.path] = slot_run(step.path, file)
            else:
                rest.append(file)
        columns = read_span(step.path, rest, after, upto, shape.width)
        earlier = [*self._mapped, *self._held] if self.occurrence.distinct else None
        return _Arrived(run_of(columns, shape.width, earlier), mapped)

    @property
    def new(self) -> Rows:
        """All new rows."""
        if self._new is None:
            self._new = self._of_arrived(lambda *_: slice(None))
        return self._new

    @property
    def new_places(self) -> int:
        """The places of new rows: a row that is never in the window has a place, and is left out where rows are read."""
        return len(self.new) if self._is_copied else sum(map(len, self._arrived.runs))

    @property
    def _is_copied(self) -> bool:
        return sum(map(len, self._arrived.runs)) <= COPIED

    def new_at(self, places: Ints) -> Rows:
        """The new rows at these places, which rise. Of mapped slots nothing else is read."""
        if self._is_copied:
            return self.new.take(places)
        return self._of_arrived(lambda first, stop: places[slice(*np.searchsorted(places, [first, stop]))] - first)

    def new_between(self, begin: int, end: int) -> Rows:
        """The new rows at the places from one to another."""
        if self._is_copied:
            return self.new.between(begin, end)
        return self._of_arrived(lambda first, _: slice(max(begin - first, 0), max(end - first, 0)))

    def _of_arrived(self, some: Callable[[int, int], Ints | slice]) -> Rows:
        """The rows of each run of new rows at the positions that a function of its first place and its end gives."""
        ends = np.cumsum([len(run) for run in self._arrived.runs]).tolist()
        parts = [run.rows(self.occurrence, some(end - len(run), end)) for run, end in zip(self._arrived.runs, ends)]
        return concat([_no_rows(self.occurrence), *parts])

    @property
    def old(self) -> list[SortedRun]:
        """The runs of the old part."""
        return [*self._mapped, *self._slots.values(), *self._held]

    def indexed(self, with_new: bool) -> list[Indexed]:
        """The indexes of the old part, one per run, and of the new part. They have expired rows, whose intervals meet no valid row."""
        runs = [*self.old, *self._arrived.runs] if with_new else self.old
        return [run.indexed(self.occurrence) for run in runs]

    def rows(self, with_new: bool) -> Rows:
        """Copies of the valid rows of the old part, and of the new rows."""
        parts = [run.rows(self.occurrence, slice(run.first_valid(self.occurrence, self._instant), None)) for run in self.old]
        rows = concat([*parts, self.new if with_new else self.new.take(np.empty(0, np.int64))])
        return rows.take(rows.end > self._instant)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without mapped files."""
        runs = [*self._held, *self._parts.values(), *([] if self._arrived.rest is None else [self._arrived.rest])]
        return sum(run.nbytes for run in runs)


def _behind(run: SortedRun, t: int) -> int:
    """The place of the first row of a run after a time."""
    return int(np.searchsorted(run.offsets, t - run.base, "right"))


class CountWindowState(CopiedNewRows):
    """The content of a window that counts elements. It is small, and read again in each step: its intervals depend on later elements.

    A row is new in the step in which its interval begins, which may be a later step than that of its element.
    """

    def __init__(self, occurrence: PatternOccurrence) -> None:
        self.occurrence = occurrence
        kind = kind_of(occurrence.window)
        assert isinstance(kind, CountWindowKind)
        self._kind = kind
        self._old = self.new = _no_rows(occurrence)
        self._sides: dict[bool, list[Indexed]] = {False: [], True: []}
        self._read: tuple[object, ...] = ()

    def advance(self, step: EvaluationStep) -> None:
        """Reads the rows of the remaining tables; see :class:`Ranks`."""
        occurrence, stream = self.occurrence, self.occurrence.window.stream
        slots, elements = step.select("slot", stream, occurrence.shape.key), step.select("elements", stream)
        slots = [slot for slot in slots if slot.greatest > occurrence.since]  # earlier ones may have no table of elements
        read = (step.after, step.upto, *slots, *elements)
        if read == self._read:
            return
        self._read = read
        columns = read_span(step.path, slots, int(BEFORE_TIME), step.upto, occurrence.shape.width)
        ranks = rank_elements(step.path, elements, step.dropped.get(stream, 0), step.upto)
        tables = [ranks.of[slot.path.replace("slot-", "elements-").replace(f"-{occurrence.shape.key}", "")] for slot in slots]
        rank = np.empty(len(columns["t"]), np.int64)
        for number, table in enumerate(tables):
            mine = columns["task"] == number
            rank[mine] = table[columns["e"][mine]]
        bound = {variable: columns[f"v{i}"] for i, variable in enumerate(occurrence.variables)}
        if occurrence.time:
            bound[occurrence.time] = integer_ids(columns["t"])
        entry, expiry = self._kind.ranks(rank)
        start, end = (ranks.time_of(at, int(FOREVER)) for at in (entry, expiry))
        rows = Rows({**bound, RANK + stream: expiry}, start, end, np.ones(len(end), np.int64))
        rows = rows.take((start < end) & (end > step.ended) & (columns["t"] > occurrence.since))
        self._old, self.new = rows.take(rows.start <= step.after), rows.take(rows.start > step.after)
        self._sides = {False: [Indexed.of_rows(self._old)], True: [Indexed.of_rows(self._old), Indexed.of_rows(self.new)]}

    def indexed(self, with_new: bool) -> list[Indexed]:
        """The indexes of the old part, and of the new one."""
        return [side for side in self._sides[with_new] if side.rows]

    def rows(self, with_new: bool) -> Rows:
        """The rows of the old part, and the new ones."""
        return concat([self._old, self.new]) if with_new else self._old

    @property
    def nbytes(self) -> int:
        """Bytes that are held in memory."""
        return sum(rows.start.nbytes * (3 + len(rows.columns)) for rows in (self._old, self.new))


def _no_rows(occurrence: PatternOccurrence) -> Rows:
    none = np.empty(0, np.int64)
    return Rows(dict.fromkeys(occurrence.binds, none), none, none, none)


Content: TypeAlias = "WindowState | CountWindowState | UnionWindowState"

_CONTENTS: SharedCache[Key, Content] = SharedCache(512)


class NamedContent:
    """The content of a window with the names that an occurrence has for its columns; occurrences with other names share the state."""

    def __init__(self, state: Content, names: Mapping[str, str]) -> None:
        self.state, self._names = state, names

    @property
    def new(self) -> Rows:
        """All new rows."""
        return self._named(self.state.new)

    @property
    def new_places(self) -> int:
        """The places of new rows; a row that is never in the window may have one."""
        return self.state.new_places

    def new_at(self, places: Ints) -> Rows:
        """The new rows at these places, which rise."""
        return self._named(self.state.new_at(places))

    def new_between(self, begin: int, end: int) -> Rows:
        """The new rows at the places from one to another."""
        return self._named(self.state.new_between(begin, end))

    def indexed(self, with_new: bool) -> list[Indexed]:
        """The indexes of the old part, one per run, and of the new part."""
        sides = self.state.indexed(with_new)
        return [Indexed(s.relation, {self._names.get(v, v): own for v, own in s.names.items()}, s.intervals) for s in sides]

    def rows(self, with_new: bool) -> Rows:
        """The valid rows of the old part, and the new rows."""
        return self._named(self.state.rows(with_new))

    def _named(self, rows: Rows) -> Rows:
        return Rows({self._names.get(v, v): column for v, column in rows.columns.items()}, rows.start, rows.end, rows.n)


def content(occurrence: PatternOccurrence, step: EvaluationStep) -> NamedContent:
    """The content of an occurrence's windows at a step, which the queries of a run share, whatever the names of variables."""
    names = {} if occurrence.merged else {f"v{i}": v for i, v in enumerate(occurrence.variables)} | {TIME: occurrence.time}
    plain = replace(occurrence, name="", window=replace(occurrence.window, name=""))
    if names:
        plain = replace(plain, variables=tuple(v for v in names if v != TIME), time=TIME if occurrence.time else "")
    key = step.run, step.expired_by, plain
    found = cached(_CONTENTS, key, lambda: _made(plain))
    try:
        if isinstance(found, UnionWindowState):
            static = occurrence.static
            found.advance(step, None if static is None else static_relation(occurrence.store, static.at))
        else:
            found.advance(step)
    except BaseException:  # a file could not be read: the content is half of the step
        _CONTENTS.pop(key, None)
        raise
    return NamedContent(found, names)


def _made(occurrence: PatternOccurrence) -> WindowState | CountWindowState | UnionWindowState:
    parts = [(CountWindowState if kind_of(part.window).counts_elements else WindowState)(part) for part in occurrence.parts]
    return UnionWindowState(occurrence, parts) if occurrence.merged else parts[0]
