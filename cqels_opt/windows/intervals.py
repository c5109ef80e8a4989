"""Time as numbers: int64 milliseconds, and half-open intervals ``[start, end)`` in two columns (SEMANTICS §1).

An interval with ``start >= end`` is empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import LimitError

Times = NDArray[np.int64]
FOREVER = np.int64(1 << 61)
BEFORE_TIME = np.int64(-(1 << 61))


MANY = 1000
"""Times from which on a table of places is worth its cost, if it has no more entries than these times."""


def places_in(instants: Times, times: Times) -> Times:
    """For each of some times the number of instants before it; ``instants`` rise.

    Many times are looked up in a table by millisecond instead of in the instants.
    """
    if not len(instants) or not MANY <= len(times) > int(instants[-1]) - int(instants[0]):
        return np.searchsorted(instants, times)
    first, behind = int(instants[0]), int(instants[-1]) + 1
    table = np.searchsorted(instants, np.arange(first, behind + 1))
    found: Times = table.take(np.clip(times, first, behind) - first)
    return found


MOST_INSTANTS = 1 << 26
"""Instants of a window between two elements: some years of seconds."""


def periodic(origin: int, step: int, first: int, last: int) -> Times:
    """The instants ``origin + k * step`` in ``[first, last]``, for all whole numbers k. LimitError if there are more than
    :data:`MOST_INSTANTS`.
    """
    if (last - first) // step > MOST_INSTANTS:
        raise LimitError(
            f"a step of {step:,} ms has more than {MOST_INSTANTS:,} instants between {first:,} and {last:,} ms: the time of an element is "
            "far from those of the others"
        )
    return np.arange(origin - (origin - first) // step * step, last + 1, step, dtype=np.int64)
