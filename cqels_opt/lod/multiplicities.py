"""Arithmetic of multiplicities: how often a row of a bag occurs, in 64 bits that never wrap.

Joins multiply multiplicities and projections add them up, so a star of eight patterns with 256 matches each has a row that occurs 2^64
times. Results below 2^62 are exact, whatever they pass through; a larger one is refused. Differences of bags have negative ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import RunError

Ints = NDArray[np.int64]

LIMIT: Final = 1 << 62
_SURE: Final = 2.0**61
"""What floating-point numbers find to be below this is below the limit, in spite of their rounding."""
_LOW: Final = (1 << 32) - 1


def product(n: Ints, times: Ints) -> Ints:
    """Multiplicities, each ``times`` as often. RunError if one reaches the limit."""
    if _greatest(n) * _greatest(times) >= LIMIT:
        near = np.flatnonzero(np.abs(n.astype(np.float64) * times) >= _SURE)
        if len(near) and max(abs(a * b) for a, b in zip(n[near].tolist(), times[near].tolist())) >= LIMIT:
            raise _too_many()
    return n * times


def _greatest(n: Ints) -> int:
    """The greatest amount, whatever its sign."""
    return max(int(n.max()), -int(n.min())) if len(n) else 0


def total(n: NDArray[Any]) -> int:
    """The sum of multiplicities, exact however large it is."""
    return (int((n >> 32).sum()) << 32) + int((n & _LOW).sum())


def summed(n: Ints, add: Callable[[Ints], Ints]) -> Ints:
    """The result of ``add``, which adds and subtracts multiplicities. RunError if a result reaches the limit.

    Additions in 64 bits give the right result whenever it fits, even if they wrap on the way; the sums of the upper and of the
    lower halves, which cannot wrap, show whether it fits.
    """
    if np.abs(n).sum(dtype=np.float64) >= _SURE:
        high = add(n >> 32) + (add(n & _LOW) >> 32)
        if ((high >= LIMIT >> 32) | (high < -(LIMIT >> 32))).any():
            raise _too_many()
    return add(n)


def by_group(n: Ints, group: Ints, groups: int) -> Ints:
    """The sum of the multiplicities in each group."""

    def add(some: Ints) -> Ints:
        found = np.zeros(groups, np.int64)
        np.add.at(found, group, some)
        return found

    return summed(n, add)


def product_in_sql(columns: Sequence[str]) -> str:
    """The product of columns of multiplicities as an expression of Spark SQL; negative if it, or a factor, reaches the limit."""
    if len(columns) < 2:
        return columns[0] if columns else "1L"
    below = " OR ".join(f"{column} < 0" for column in columns)
    wide = " * ".join(f"double({column})" for column in columns)
    return f"IF({below} OR {wide} >= double({LIMIT}L), -1L, {' * '.join(columns)})"


def checked(n: Ints) -> Ints:
    """Multiplicities multiplied by Spark. RunError if one has reached the limit."""
    if len(n) and n.min() < 0:
        raise _too_many()
    return n


def _too_many() -> RunError:
    return RunError(
        "more than 2^62 rows are equal in one result: the matches of patterns or windows multiply; join them on more variables"
    )
