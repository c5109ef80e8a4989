"""Sort orders of rows.

numpy sorts a single column of numbers several times faster than it computes the order of several columns, and on many processors than a
stable order of values in any order. Therefore columns become dense ranks, and the ranks of a row are packed into one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

LONG_PART: Final = 1 << 10
"""The average length of sorted parts of a column that are merged instead of sorted."""

_ROW_BITS: Final = 32
_PACKED: Final = 1 << 63


def run_starts(columns: Sequence[Ids]) -> Ids:
    """The positions at which a row differs from the one before it, in columns sorted by the same order."""
    changed = np.zeros(len(columns[0]), np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def is_sorted(column: Ids) -> bool:
    """Whether values never fall."""
    return bool((column[1:] >= column[:-1]).all())


def sorted_order(columns: Sequence[Ids]) -> Ids:
    """The order of rows by their columns, the first column first; equal rows are in any order."""
    return np.argsort(columns[0] if len(columns) == 1 else packed(columns)[0])


def packed(columns: Sequence[Ids], times: int = 1) -> tuple[Ids, int]:
    """A number for each row, in the order of rows by their columns, and a number that is greater than all of them.

    Equal rows have equal numbers. ``times`` the greater number fits into 63 bits as well.
    """
    ranks, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        codes, distinct = _ranks(column)
        if count * distinct >= _PACKED:
            ranks, count = _ranks(ranks)
        ranks, count = ranks * distinct + codes, count * distinct
    return (ranks, count) if count * times < _PACKED else _ranks(ranks)


def stable_order(column: Ids) -> Ids:
    """The order of rows by a column; rows with equal values stay in the order in which they are."""
    falls = np.count_nonzero(column[1:] < column[:-1])
    if len(column) >= 1 << _ROW_BITS - 1 or falls * LONG_PART <= len(column):
        return np.argsort(column, kind="stable")  # Timsort, which merges sorted parts
    order = np.argsort(column)
    ordered = column[order]
    first = np.ones(len(column) + 1, np.bool_)  # rows that have another value than the row before
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:-1])
    some: slice | Ids = slice(None)
    if 8 * np.count_nonzero(first) > 7 * len(first):  # most values occur once: only rows with equal ones need another order
        some = np.flatnonzero(~(first[1:] & first[:-1]))
    order[some] = np.sort(np.cumsum(first[:-1][some]) << _ROW_BITS | order[some]) & ((1 << _ROW_BITS) - 1)
    return order


def _ranks(column: Ids) -> tuple[Ids, int]:
    """The rank of each row's value among the different values, and how many there are."""
    if not len(column):
        return column, 1
    order = np.argsort(column)
    ordered = column[order]
    dense = np.zeros(len(column), np.int64)
    np.cumsum(ordered[1:] != ordered[:-1], out=dense[1:])
    ranks = np.empty(len(column), np.int64)
    ranks[order] = dense
    return ranks, int(dense[-1]) + 1
