"""The content of a merged relation: the matches of a pattern in several windows and in the static data.

In C-SPARQL, SPARQLstream and Streaming SPARQL a pattern matches windows and static data as one graph (SEMANTICS §3). Each such pattern is
one relation of its block, and one delta source: its new rows are those of its windows, and the static triples are old from the start. As a
set the merged graph has each triple once: the runs of a window omit its repetitions, a triple that is also static counts as static, and
the rows of several windows are coalesced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cqels_opt.lod.relation import Relation
from cqels_opt.operators.blocks import PatternOccurrence
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.interval_join import Indexed, as_rows, covered, disjoint
from cqels_opt.operators.rows import Ints, Rows, concat, empty
from cqels_opt.storage.compaction_policy import runs_to_merge
from cqels_opt.windows.intervals import BEFORE_TIME

OWNER = "#owner"


class CopiedNewRows:
    """The new rows of a state that holds all of them in memory, and their places."""

    new: Rows

    @property
    def new_places(self) -> int:
        """The number of new rows."""
        return len(self.new)

    def new_at(self, places: Ints) -> Rows:
        """The new rows at these places."""
        return self.new.take(places)

    def new_between(self, begin: int, end: int) -> Rows:
        """The new rows at the places from one to another."""
        return self.new.between(begin, end)


class SingleWindow(Protocol):
    """The matches of a pattern in one window, see :mod:`cqels_opt.state.window_state`."""

    @property
    def new(self) -> Rows:
        """The rows of the step."""

    def advance(self, step: EvaluationStep) -> None:
        """Moves the content to a step."""

    def indexed(self, with_new: bool) -> list[Indexed]:
        """The indexes of the old part, and of the new one."""

    def rows(self, with_new: bool) -> Rows:
        """The valid rows of the old part, and the new rows."""

    @property
    def nbytes(self) -> int:
        """Bytes that are held in memory."""


class UnionWindowState(CopiedNewRows):
    """The rows of a merged relation: those of its windows, ``new`` and old, and the static rows, which are old.

    If several windows are matched as a set, their rows are in memory, with disjoint intervals: a new row adds what no earlier row covers.
    """

    def __init__(self, occurrence: PatternOccurrence, parts: Sequence[SingleWindow]) -> None:
        self.occurrence, self.parts = occurrence, tuple(parts)
        self.new = empty(occurrence.variables)
        self._coalesced = occurrence.distinct and len(self.parts) > 1
        self._static: Indexed | None = None
        self._upto = self._new_upto = self._ended = int(BEFORE_TIME)
        self._held: list[_Piece] = []
        self._arrived = _Piece(self.new)

    def advance(self, step: EvaluationStep, static: Relation | None) -> None:
        """Moves the content to a step. ``static`` are the current static rows."""
        for part in self.parts:
            part.advance(step)
        if static is not None and (self._static is None or self._static.relation is not static):
            assert self.occurrence.static is not None
            self._static = Indexed.of_static(static, self.occurrence.static.variables)
        if (self._upto, self._new_upto) == (step.after, step.upto):
            return
        new = concat([part.new for part in self.parts])
        if self._coalesced:
            self._follow(step)
            new = self._uncovered(disjoint(new.only(self.occurrence.variables)))
        self._upto, self._new_upto, self._ended = step.after, step.upto, step.ended
        self.new = self._beside_static(new)
        self._arrived = _Piece(self.new)

    def _follow(self, step: EvaluationStep) -> None:
        """Moves the old part to the step: adds the rows that were new or, if steps were skipped, reads the windows."""
        if self._upto != step.after:
            if self._new_upto == step.after:
                self._held.append(self._arrived)
            else:
                old = concat([part.rows(False) for part in self.parts]).only(self.occurrence.variables)
                self._held = [_Piece(self._beside_static(disjoint(old)))]
        self._held = [piece for piece in self._held if len(piece.rows) and piece.ends > step.ended]
        while (some := runs_to_merge([len(piece.rows) for piece in self._held])) is not None:
            self._held[some] = [_Piece(concat([piece.rows.take(piece.rows.end > step.ended) for piece in self._held[some]]))]

    def _uncovered(self, rows: Rows) -> Rows:
        """The parts of rows that no old row covers, in an order that does not depend on how the old rows are split."""
        found = [_pairs(rows, piece.indexed, self.occurrence.variables) for piece in self._held]
        if found and len(rows):
            owner, start, end = (np.concatenate(columns) for columns in zip(*found))
            rows = covered(rows, owner, start, end)[1]
        return rows.take(np.lexsort((rows.start, *(rows.columns[v] for v in self.occurrence.variables))))

    def _beside_static(self, rows: Rows) -> Rows:
        """The rows without those that are also static, if a triple counts once."""
        if self._static is None or not self.occurrence.distinct or not len(rows):
            return rows
        alone = np.ones(len(rows), bool)
        alone[self._also_static([rows.columns[v] for v in self.occurrence.variables])] = False
        return rows.take(alone)

    def _also_static(self, columns: Sequence[Ints]) -> Ints:
        """The places of the rows that are static; ``columns`` are those of the occurrence's variables."""
        assert self._static is not None
        named = sorted((self._static.names[v], column) for v, column in zip(self.occurrence.variables, columns))
        return self._static.relation.index(tuple(name for name, _ in named)).lookup(*(column for _, column in named))[0]

    def indexed(self, with_new: bool) -> list[Indexed]:
        """The sides of a join: the indexes of the windows' old and new parts, and the static one."""
        if self._coalesced:
            pieces = [*self._held, *([self._arrived] if with_new else [])]
            sides = [piece.indexed for piece in pieces if len(piece.rows)]
        else:
            sides = [self._without_static(side) for part in self.parts for side in part.indexed(with_new)]
        return [*sides, *([self._static] if self._static is not None else [])]

    def _without_static(self, side: Indexed) -> Indexed:
        """A window's index in which rows that are static as well are never valid."""
        within = side.intervals
        if self._static is None or not self.occurrence.distinct or within is None:
            return side
        columns = [side.relation.columns[side.names[v]] for v in self.occurrence.variables]

        def intervals(found: Ints) -> tuple[Ints, Ints]:
            start, end = within(found)
            also = self._also_static([np.asarray(column)[found] for column in columns])
            end = np.array(end)
            end[also] = start[also]
            return start, end

        return Indexed(side.relation, side.names, intervals)

    def rows(self, with_new: bool) -> Rows:
        """The valid rows of the windows' old part, the new rows, and the static rows."""
        if self._coalesced:
            found = [piece.rows.take(piece.rows.end > self._ended) for piece in self._held]
        else:
            found = [self._beside_static(part.rows(False)) for part in self.parts]
        found += [self.new] if with_new else []
        if self._static is not None:
            found.append(as_rows(self._static.relation, list(self._static.names)))
        return concat([empty(self.occurrence.variables), *found])

    @property
    def nbytes(self) -> int:
        """Bytes that are held in memory."""
        held = [self.new, *(piece.rows for piece in self._held)]
        own = sum(rows.start.nbytes * (3 + len(rows.columns)) for rows in held)
        return own + sum(part.nbytes for part in self.parts)


class _Piece:
    """Rows with disjoint intervals, indexed on first use."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.ends = int(rows.end.max()) if len(rows) else int(BEFORE_TIME)
        self._indexed: Indexed | None = None

    @property
    def indexed(self) -> Indexed:
        """The rows as a side of a join."""
        if self._indexed is None:
            self._indexed = Indexed.of_rows(self.rows)
        return self._indexed


def _pairs(rows: Rows, side: Indexed, on: Sequence[str]) -> tuple[Ints, Ints, Ints]:
    """Which rows meet an equal row of a side, and in which intervals."""
    asked = rows.only(on).with_column(OWNER, np.arange(len(rows)))
    found = list(side.probe(asked, on))
    none = np.empty(0, np.int64)
    return (
        np.concatenate([none, *(x.columns[OWNER] for x in found)]),
        np.concatenate([none, *(x.start for x in found)]),
        np.concatenate([none, *(x.end for x in found)]),
    )
