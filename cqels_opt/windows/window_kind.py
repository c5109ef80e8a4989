"""What a window kind decides: from when until when the window holds an element, and when the window closes.

Each kind is a class: :mod:`cqels_opt.windows.kinds` has the built-in ones. Other packages add kinds through the entry points
``cqels_opt.windows`` (docs/extending.md); ``[name(arguments)]`` in a query then declares such a window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Window
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER, Times


class WindowKind(ABC):
    """A declared window, as its kind reads it. Objects have no state of their own: many are made of one :class:`Window`.

    ``parameters`` names the fields of :class:`Window` that the arguments in a query's text set, in order. ``width``, ``slide`` and
    ``step`` take durations; ``count`` and ``every`` take whole numbers.
    """

    parameters: ClassVar[tuple[str, ...]] = ()
    counts_elements: ClassVar[bool] = False
    """Whether the intervals depend on later elements of the stream (see :class:`CountWindowKind`), not on an element's time alone."""

    def __init__(self, window: Window) -> None:
        self.window = window

    @abstractmethod
    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """Start and end of the intervals in which the window holds elements of times ``t``. Neither falls as t rises."""

    @property
    @abstractmethod
    def reach(self) -> int | None:
        """The end of an element's interval is at most this number of milliseconds after its time; None: there is no bound."""

    @property
    def extent(self) -> float:
        """How long the window is compared with others, for the order in which heuristics join windows."""
        return float("inf") if self.reach is None else float(self.reach)

    def first(self, t0: int) -> int:
        """The window holds no element before this time."""
        return int(BEFORE_TIME)

    def closings(self, t0: int, first: int, last: int) -> Times | None:
        """The instants in ``[first, last]`` at which the window closes; None: it closes when its content changes."""
        return None

    @property
    def depth(self) -> int:
        """Of a window that counts elements: only this number of the last elements of the stream can be in it now or later."""
        return 0

    @property
    def report_period(self) -> int:
        """The period in which the query is evaluated in place of its profile's policy; 0: the window does not decide that."""
        return 0

    def validity(self, t: Times, t0: int) -> tuple[Times, Times]:
        """The intervals of elements; empty for those before the first that the window holds. InputError if there is not one of each."""
        start, end = self.interval(t, t0)
        if not np.shape(start) == np.shape(end) == np.shape(t):
            raise InputError(
                f"the window kind {self.window.kind!r} gives starts of shape {np.shape(start)} and ends of shape {np.shape(end)} "
                f"for times of shape {np.shape(t)}"
            )
        first = self.first(t0)
        if first == BEFORE_TIME:
            return start, end
        return np.where(t >= first, start, 0), np.where(t >= first, end, 0)


class CountWindowKind(WindowKind):
    """A window whose intervals are counted in elements: they begin and end when elements of certain ranks arrive.

    Elements have ranks in the order (time, partition, offset), from 0. The window changes with each element of its stream or, where the
    field ``every`` of the window is not 0, with each ``every``-th: those of rank ``k * every - 1``.
    """

    counts_elements = True

    @abstractmethod
    def ranks(self, rank: Times) -> tuple[Times, Times]:
        """The ranks of the elements with which the intervals of elements of these ranks begin and end."""

    @property
    def depth(self) -> int:
        """Those that it holds, and those that arrive before it changes."""
        return self.window.count + self.window.every

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """The end is unknown: it does not follow from t."""
        return t, np.full_like(t, FOREVER)

    @property
    def reach(self) -> int | None:
        """Ranks are no times."""
        return None

    @property
    def extent(self) -> float:
        """The number of elements."""
        return float(self.window.count)
