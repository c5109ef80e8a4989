"""Columns of values, one per row: the arguments and results of functions that are evaluated per column.

A row whose value is an error or unbound is None in ``items`` and NaN in ``numbers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.query.numeric import double
from cqels_opt.query.values import Item, is_number, value

Floats: TypeAlias = "NDArray[np.float64]"
Places: TypeAlias = "NDArray[np.int64]"


class Column(Protocol):
    """The values of an expression, one per row."""

    def __len__(self) -> int: ...

    def items(self) -> Sequence[Item | None]:
        """Each value as a term's text or as a Python number; None for an error."""

    def numbers(self) -> Floats:
        """Each value as a double; NaN where it is not a number."""

    def take(self, places: Places) -> Column:
        """The values at the given positions."""

    def followed_by(self, others: Sequence[Column]) -> Column:
        """The column concatenated with columns of the same kind; ValueError for a column of another kind."""


class Items:
    """Values of any kind."""

    def __init__(self, found: Sequence[Item | None]) -> None:
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    def items(self) -> Sequence[Item | None]:
        """See :class:`Column`."""
        return self._found

    def numbers(self) -> Floats:
        """See :class:`Column`."""
        return np.fromiter(map(_number, self._found), np.float64, len(self._found))

    def take(self, places: Places) -> Items:
        """See :class:`Column`."""
        return Items([self._found[place] for place in places.tolist()])

    def followed_by(self, others: Sequence[Column]) -> Items:
        """See :class:`Column`; accepts columns of any kind."""
        return Items([*self._found, *chain.from_iterable(other.items() for other in others)])


class Numbers:
    """Doubles; NaN means error."""

    def __init__(self, found: Floats) -> None:
        self._found = found

    def __len__(self) -> int:
        return len(self._found)

    def items(self) -> Sequence[Item | None]:
        """See :class:`Column`."""
        return [None if x != x else x for x in self._found.tolist()]

    def numbers(self) -> Floats:
        """See :class:`Column`."""
        return self._found

    def take(self, places: Places) -> Numbers:
        """See :class:`Column`."""
        return Numbers(self._found[places])

    def followed_by(self, others: Sequence[Column]) -> Numbers:
        """See :class:`Column`."""
        if not all(isinstance(other, Numbers) for other in others):
            raise ValueError("columns of several kinds")
        return Numbers(np.concatenate([self._found, *(other.numbers() for other in others)]))


class Repeated:
    """A constant: the same value in every row."""

    def __init__(self, item: Item, length: int) -> None:
        self.item, self._length = item, length

    def __len__(self) -> int:
        return self._length

    def items(self) -> Sequence[Item | None]:
        """See :class:`Column`."""
        return [self.item] * self._length

    def numbers(self) -> Floats:
        """See :class:`Column`."""
        return np.full(self._length, _number(self.item))

    def take(self, places: Places) -> Repeated:
        """See :class:`Column`."""
        return Repeated(self.item, len(places))

    def followed_by(self, others: Sequence[Column]) -> Column:
        """See :class:`Column`."""
        return Items(self.items()).followed_by(others)


def concatenated(columns: Sequence[Column]) -> Column:
    """The concatenation of columns."""
    first, *rest = columns
    if not rest:
        return first
    try:
        return first.followed_by(rest)
    except ValueError:
        return Items(first.items()).followed_by(rest)


def _number(item: Item | None) -> float:
    if type(item) is float:
        return item
    found = None if item is None else value(item)
    return double(found) if is_number(found) else float("nan")
