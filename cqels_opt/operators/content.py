"""The content of a window, as joins see it in a step: an old part and a new part, in runs that are indexed on demand.

Runs are kept between steps by the worker and merged when they are of like size, so that many small slots do not slow a probe.
"""

from __future__ import annotations

import numpy as np

from cqels_opt.operators.cache import Recent
from cqels_opt.operators.join import RANK, Indexed
from cqels_opt.operators.program import Occurrence
from cqels_opt.operators.rows import Ints, Rows, concat, group_ids
from cqels_opt.operators.step import Step
from cqels_opt.windows.columns import Columns
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER, validity
from cqels_opt.windows.slots import rank_elements, read_span

Key = tuple[str, str, str, object]


class Content:
    """The rows of one shape under one window: ``old`` runs with t <= F0, and ``new`` ones of the step."""

    def __init__(self, occurrence: Occurrence) -> None:
        self.occurrence = occurrence
        self.upto = int(BEFORE_TIME)
        self.old: list[Rows] = []
        self.new = _no_rows(occurrence)
        self.new_upto = int(BEFORE_TIME)
        self._indexed: dict[int, tuple[Rows, Indexed]] = {}

    def advance(self, step: Step) -> None:
        """Moves the content to a step. A step that does not follow on the last one makes it read its slots again."""
        if self.upto == step.after and self.new_upto == step.upto:
            return
        if self.new_upto == step.after:
            self._append(self.new)
            self.upto = step.after
        if self.upto > step.after:
            self.upto, self.old = int(BEFORE_TIME), []
        if self.upto < step.after:
            self._append(self._read(step, self.upto, step.after))
            self.upto = step.after
        self.new, self.new_upto = self._read(step, step.after, step.upto), step.upto
        self.old = [run for run in self.old if run.end.max() > step.after + 1]
        self._compact(step.after + 1)
        live = {id(run) for run in (*self.old, self.new)}
        self._indexed = {key: value for key, value in self._indexed.items() if key in live}

    def _append(self, rows: Rows) -> None:
        if len(rows):
            self.old.append(rows)

    def _compact(self, bound: int) -> None:
        while len(self.old) > 1 and len(self.old[-2]) < 2 * len(self.old[-1]):
            last, before = self.old.pop(), self.old.pop()
            merged = concat([before, last])
            self._append(merged.take(merged.end > bound))

    def _read(self, step: Step, after: int, upto: int) -> Rows:
        rows = _with_intervals(self.occurrence, _span(self.occurrence, step, after, upto))
        return self._uncovered(rows) if self.occurrence.distinct and len(rows) else rows

    def _uncovered(self, rows: Rows) -> Rows:
        """For a window that is a set: of a repeated triple only what its earlier occurrences leave uncovered (DESIGN §3).

        Starts and ends never fall as time goes on, so that is the part behind the end of the occurrence before.
        """
        group, _ = group_ids(list(rows.columns.values()), len(rows))
        order = np.argsort(group, kind="stable")
        before = np.full(len(rows), BEFORE_TIME)
        again = np.flatnonzero(group[order][1:] == group[order][:-1]) + 1
        before[order[again]] = rows.end[order[again - 1]]
        keys = list(rows.columns)
        for run in self.old:
            if keys:
                index = self.indexed(run).relation.index(tuple(keys))
                probe, found = index.lookup(*rows.columns.values())
                np.maximum.at(before, probe, run.end[found])
            elif len(run):
                before = np.maximum(before, run.end.max())
        return rows.with_interval(np.maximum(rows.start, before), rows.end)

    def indexed(self, run: Rows) -> Indexed:
        """The run with its indexes, which stay while the run does."""
        if id(run) not in self._indexed:
            self._indexed[id(run)] = (run, Indexed.of_rows(run))
        return self._indexed[id(run)][1]


class LastContent(Content):
    """The content of a last-n window: small, and read anew, for its ends hang on later elements."""

    def advance(self, step: Step) -> None:
        """Reads what the tables still hold; see :class:`Ranks`."""
        occurrence = self.occurrence
        stream = occurrence.window.stream
        slots = step.select("slot", stream, occurrence.shape.key)
        columns = read_span(step.path, slots, int(BEFORE_TIME), step.upto, occurrence.shape.width)
        ranks = rank_elements(step.path, step.select("elements", stream), step.dropped.get(stream, 0), step.upto)
        tables = [ranks.of[slot.path.replace("slot-", "elements-").replace(f"-{occurrence.shape.key}", "")] for slot in slots]
        rank = np.empty(len(columns["t"]), np.int64)
        for number, table in enumerate(tables):
            mine = columns["task"] == number
            rank[mine] = table[columns["e"][mine]]
        rows = _bound(occurrence, columns)
        expiry = rank + occurrence.window.count
        rows = Rows({**rows.columns, RANK + stream: expiry}, columns["t"], ranks.time_of(expiry, int(FOREVER)), rows.n)
        alive = (rows.start < rows.end) & (rows.end > step.after + 1)
        rows, t = rows.take(alive), columns["t"][alive]
        self.old = [run for run in [rows.take(t <= step.after)] if len(run)]
        self.new = rows.take(t > step.after)
        self._indexed = {}


def _no_rows(occurrence: Occurrence) -> Rows:
    none = np.empty(0, np.int64)
    return Rows(dict.fromkeys(occurrence.variables, none), none, none, none)


def _span(occurrence: Occurrence, step: Step, after: int, upto: int) -> Columns:
    slots = step.select("slot", occurrence.window.stream, occurrence.shape.key)
    return read_span(step.path, slots, after, upto, occurrence.shape.width)


def _bound(occurrence: Occurrence, columns: Columns) -> Rows:
    bound = {variable: columns[f"v{i}"] for i, variable in enumerate(occurrence.variables)}
    t: Ints = columns["t"]
    return Rows(bound, t, t, np.ones(len(t), np.int64))


def _with_intervals(occurrence: Occurrence, columns: Columns) -> Rows:
    return _bound(occurrence, columns).with_interval(*validity(occurrence.window, columns["t"], occurrence.t0))


_CONTENTS: Recent[Key, Content] = Recent(512)


def content(occurrence: Occurrence, step: Step) -> Content:
    """The content of an occurrence's window at a step. Occurrences that differ in their variables' names have one each."""
    make = LastContent if occurrence.window.kind == "last" else Content
    found = _CONTENTS.get((step.run, occurrence.shape.key, occurrence.window.stream, occurrence), lambda: make(occurrence))
    found.advance(step)
    return found
