"""Limits on the rows of the operators of a plan: an operator that exceeds its limit stops its delta, which is then planned again.

A limit is a multiple of the estimate, so that a plan that was chosen because of a false estimate costs little more than what shows that it
is false (compare the validity checks of progressive optimization, Markl et al. 2004, and the growing shares of POLAR, Justen et al. 2024).
Index look-ups count the pairs of a probe before any of them is built. If there may be too many, a pilot is built first, and the share of
its pairs that become rows is taken for that of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from cqels_opt.operators.rows import Ints, Rows, pieces
from cqels_opt.plans.join_methods.replicated_probe import ReplicatedProbe

PILOT: Final = 1024
"""Pairs of a probe that are built before the others, if these may exceed the limit."""


class StoppedDelta(NamedTuple):
    """A delta that an operator has stopped: its block and source, the operator's number in the plan, and the rows that it would have given.

    Of what preceded the stop: ``given`` are the rows after each operator, and ``finished`` says which of them are all of its rows.
    """

    block: str
    source: str
    operator: int
    expected: float
    given: tuple[int, ...]
    finished: tuple[bool, ...]


class RowLimitError(Exception):
    """An operator exceeds its limit. Only :class:`~cqels_opt.operators.delta_join.DeltaJoin` and its callers see it."""


class RowLimit:
    """The limit of one operator. ``exceeded`` are the rows that it would have given, once these are more than ``most``."""

    def __init__(self, most: float) -> None:
        self.most = most
        self.exceeded: float | None = None
        self._rows = self._before = 0.0
        self._share = 1.0  # of the pairs of the current probe, those that have been built

    def pieces(self, fanout: Ints) -> Iterator[slice]:
        """Cuts the left rows of a probe, whose numbers of pairs are given, into pieces; the first of too many is a pilot."""
        total, done = int(fanout.sum()), 0
        self._before = self._rows
        for piece in pieces(fanout, PILOT if self._rows + total > self.most else None):
            done += int(fanout[piece].sum())
            self._share = done / total if total else 1.0
            yield piece
        self._before, self._share = self._rows, 1.0

    def add(self, rows: float) -> None:
        """Counts rows; RowLimitError if there are or will be too many."""
        self._rows += rows
        expected = self._before + (self._rows - self._before) / self._share
        if expected > self.most:
            self.exceeded = expected
            raise RowLimitError


class LimitedProbe(ReplicatedProbe):
    """The replicated probe of an operator with a limit."""

    def __init__(self, limit: RowLimit) -> None:
        self._limit = limit

    def join(self, left: Rows, right: Any, on: Sequence[str]) -> Iterator[Rows]:
        """See :meth:`JoinMethod.join`."""
        joined: Iterator[Rows] = right.probe(left, on, self._limit)
        return joined
