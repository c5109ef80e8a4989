"""Time as numbers: int64 milliseconds, and half-open intervals ``[start, end)`` in two columns (SEMANTICS §1).

An interval with ``start >= end`` is empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
FOREVER = np.int64(1 << 61)
BEFORE_TIME = np.int64(-(1 << 61))


def periodic(origin: int, step: int, first: int, last: int) -> Times:
    """The instants ``origin + k * step`` in ``[first, last]``, for all whole numbers k."""
    return np.arange(origin - (origin - first) // step * step, last + 1, step, dtype=np.int64)
