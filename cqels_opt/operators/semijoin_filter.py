"""Semi-join filters: keys to which rows are restricted before an operator reads them.

An operator that is asked for the rows of some keys may return more of its rows, never fewer. A reader that needs only these drops the
others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.index import Index
from cqels_opt.operators.rows import Ints, Rows, group_ids

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class KeyFilter:
    """Distinct tuples of values (0: unbound) of some variables. Without variables there is one key, which all rows have, or none.

    With ``parts`` the keys are those whose hash belongs to the ``part``-th of this number of parts; ``columns`` are then empty.
    """

    variables: tuple[str, ...]
    columns: tuple[Ints, ...] = ()
    some: bool = True
    part: int = 0
    parts: int = 1

    @classmethod
    def of(cls, rows: Rows, variables: Sequence[str]) -> KeyFilter:
        """The keys of some rows."""
        columns = rows.values(variables)
        _, first = group_ids(columns, len(rows))
        return cls(tuple(variables), tuple(column[first] for column in columns), len(first) > 0)

    @property
    def all(self) -> bool:
        """Whether every row has one of the keys."""
        return self.some and not self.variables

    def narrowed(self, variables: Collection[str]) -> KeyFilter:
        """The keys projected to these variables: all rows with a key have a projected one."""
        kept = [v for v in self.variables if v in variables]
        if len(kept) == len(self.variables):
            return self
        if self.parts > 1:
            return EVERY
        if not self.some or not kept:
            return KeyFilter(tuple(kept), tuple(np.empty(0, np.int64) for _ in kept), False) if not self.some else EVERY
        return KeyFilter.of(self.rows(), kept)

    def rows(self) -> Rows:
        """The keys as rows."""
        size = len(self.columns[0]) if self.columns else int(self.some)
        zeros = np.zeros(size, np.int64)
        return Rows(dict(zip(self.variables, self.columns)), zeros, zeros, np.ones(size, np.int64))

    def within(self, rows: Rows) -> Rows:
        """The rows that have one of the keys."""
        return rows if self.all or not len(rows) else rows.take(self.mask(rows))

    def outside(self, rows: Rows) -> Rows:
        """The rows that have none of them."""
        return rows if not self.some or not len(rows) else rows.take(~self.mask(rows))

    def mask(self, rows: Rows) -> Mask:
        """Whether each row has one of the keys."""
        if self.parts > 1:
            mine: Mask = rows.mixed(self.variables).view(np.uint64) % np.uint64(self.parts) == self.part
            return mine
        if not self.some or not self.variables:
            return np.full(len(rows), self.some)
        return self._index.contains(*rows.values(self.variables))

    @cached_property
    def _index(self) -> Index:
        return Index.build(self.variables, self.columns)


EVERY = KeyFilter(())
"""The key that all rows have."""


def share(variables: Sequence[str], part: int, parts: int) -> KeyFilter:
    """The keys of one of several parts."""
    return KeyFilter(tuple(variables), (), True, part, parts) if parts > 1 else EVERY
