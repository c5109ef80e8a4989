"""From an element's time to its validity interval (SEMANTICS of windows; Streaming SPARQL 2008, §3).

Times are int64 milliseconds. An interval is half open, ``[start, end)``; an element that is never in the window has ``start >= end``.
Start and end never fall as t rises, which the slots and the instants rely on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cqels_opt.query.algebra import Window

Times = NDArray[np.int64]
FOREVER = np.int64(1 << 61)
BEFORE_TIME = np.int64(-(1 << 61))


def _ceil(a: Times, b: int) -> Times:
    return -((-a) // b)


def validity(window: Window, t: Times, t0: int) -> tuple[Times, Times]:
    """Start and end for elements at times ``t``. For ``last`` windows the end is FOREVER: it hangs on later elements, not on t."""
    a, b = window.width, window.slide
    kinds: dict[str, Callable[[], tuple[Times, Times]]] = {
        "now": lambda: (t, t + 1),
        "range": lambda: (t, t + a),
        "grid": lambda: (_ceil(t, b) * b, _ceil(t + a, b) * b),
        "delta": lambda: (t, t // b * b + a),
        "open-closed": lambda: _after(t > t0, t, t0 + (_ceil(t - t0, b) - 1) * b + a + 1),
        "closed-open": lambda: _after(t >= t0, t + 1, t0 + (t - t0) // b * b + a + 1),
        "star": lambda: _after(
            t >= t0,
            t0 + a + np.maximum(0, (t - t0 - a) // b + 1) * b + 1,
            t0 + (t - t0) // b * b + a + b + 1,
        ),
        "past": lambda: (t + b, t + a),
        "last": lambda: (t, np.full_like(t, FOREVER)),
        "all": lambda: (t, np.full_like(t, FOREVER)),
    }
    return kinds[window.kind]()


def _after(begun: NDArray[np.bool_], start: Times, end: Times) -> tuple[Times, Times]:
    """Elements before the first opening belong to no window."""
    return np.where(begun, start, t_zero := np.zeros_like(start)), np.where(begun, end, t_zero)


def closings(window: Window, t0: int, first: int, last: int) -> Times | None:
    """The closings of a window in ``[first, last]``; None for a window without a step, which closes when its content changes.

    Grids and δ-windows are aligned with the epoch, and close before it as well.
    """
    if window.kind in ("open-closed", "closed-open", "star"):
        origin, step, least = t0 + window.width, window.slide, 0
    elif window.kind == "past" and window.step:
        origin, step, least = t0 + window.width, window.step, 0
    elif window.kind in ("grid", "delta"):
        origin, step = window.width if window.kind == "delta" else 0, window.slide
        least = -((origin - first) // step)
    else:
        return None
    k = max(least, -((origin - first) // step))
    return np.arange(origin + k * step, last + 1, step, dtype=np.int64)
