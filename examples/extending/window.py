"""A window kind that another package adds: ``[months(2)]`` holds the current calendar month and the one before it, in UTC.

The package declares it in its ``pyproject.toml``; cqels-opt stays as it is:

    [project.entry-points."cqels_opt.windows"]
    months = "window:Months"
"""

import numpy as np

from cqels_opt.windows.intervals import Times
from cqels_opt.windows.window_kind import WindowKind

LONGEST_MONTH = 31 * 86_400_000  # ms


class Months(WindowKind):
    """The elements of the last ``count`` calendar months, the current one included."""

    parameters = ("count",)

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """An element leaves when its month does: with the first instant of the ``count``-th month after it."""
        return t, _begins(_month(t) + self.window.count)

    @property
    def reach(self) -> int:
        """No element stays longer than ``count`` long months."""
        return self.window.count * LONGEST_MONTH

    def closings(self, t0: int, first: int, last: int) -> Times:
        """The last millisecond of each month."""
        begin, end = _month(np.array([first, last])).tolist()
        found = _begins(np.arange(begin + 1, end + 2)) - 1
        return found[found <= last]


def _month(t: Times) -> Times:
    """The number of the month, counted from January 1970."""
    return t.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)


def _begins(month: Times) -> Times:
    """The first instant of a month."""
    return month.astype("datetime64[M]").astype("datetime64[ms]").astype(np.int64)
