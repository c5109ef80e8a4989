"""The window kinds: one class for each row of the table in SEMANTICS §1, and those that other packages add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from cqels_opt import plugins
from cqels_opt.query.algebra import Window
from cqels_opt.windows.intervals import FOREVER, Times, periodic
from cqels_opt.windows.window_kind import CountWindowKind, WindowKind


def _ceil(a: Times, b: int) -> Times:
    return -((-a) // b)


class _TimeWindow(WindowKind):
    """A window whose fields are lengths of time."""

    @property
    def reach(self) -> int | None:
        """The lengths together, rounded up."""
        return self.window.width + 2 * max(self.window.slide, self.window.step, 1) + 2

    @property
    def extent(self) -> float:
        """The width, and how far the window slides."""
        return float(self.window.width + self.window.slide)


class Now(_TimeWindow):
    """``[NOW]``: the elements of the instant itself."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """One millisecond."""
        return t, t + 1

    @property
    def extent(self) -> float:
        """The shortest window there is."""
        return 1.0


class Range(_TimeWindow):
    """``[RANGE 30s]``: the elements of the last ``width`` milliseconds."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """From the element's time on."""
        return t, t + self.window.width


class Grid(_TimeWindow):
    """CQELS ``[RANGE 30s SLIDE 10s]``: what a range held at the last multiple of ``slide``. The grid is aligned with the epoch."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """From point to point of the grid."""
        slide = self.window.slide
        return _ceil(t, slide) * slide, _ceil(t + self.window.width, slide) * slide

    def closings(self, t0: int, first: int, last: int) -> Times | None:
        """The points of the grid."""
        return periodic(0, self.window.slide, first, last)


class DeltaWindow(_TimeWindow):
    """Streaming SPARQL's sliding δ-window: cells of length ``slide``, aligned with the epoch, each for ``width`` from its start."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """Until the element's cell leaves."""
        return t, t // self.window.slide * self.window.slide + self.window.width

    def closings(self, t0: int, first: int, last: int) -> Times | None:
        """Where cells leave."""
        return periodic(self.window.width, self.window.slide, first, last)


class Purged(_TimeWindow):
    """CQELS 1.x ``[RANGE 30s SLIDE 10s]``: elements enter at once. Those older than ``width`` are purged at multiples of ``slide``.

    An element of exactly that age stays (``RangeWindow.purge`` of CQELS 1.0 keeps both ends). ``slide`` 0: purged at every instant.
    """

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """Until the last instant at which the oldest multiple of the slide in the range is not after the element."""
        slide = self.window.slide or 1
        return t, t // slide * slide + self.window.width + 1

    def closings(self, t0: int, first: int, last: int) -> Times | None:
        """Where elements are purged; without a slide when the content changes."""
        return periodic(self.window.width + 1, self.window.slide, first, last) if self.window.slide else None


class _Openings(_TimeWindow):
    """A window (α, β, t0): it opens at t0 + kβ, k ≥ 0, and closes α later. The base class of its three readings."""

    def first(self, t0: int) -> int:
        """Elements before the first opening belong to no window."""
        return t0

    def closings(self, t0: int, first: int, last: int) -> Times | None:
        """From the closing of the first window on."""
        origin = t0 + self.window.width
        return periodic(origin, self.window.slide, max(first, origin), last)


class OpenClosed(_Openings):
    """RSP-QL ``[RANGE 10s STEP 5s]``: elements after the opening, up to and including the closing."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """Until the last of the windows that hold the element has closed."""
        slide = self.window.slide
        return t, t0 + (_ceil(t - t0, slide) - 1) * slide + self.window.width + 1

    def first(self, t0: int) -> int:
        """The opening itself is not in the window."""
        return t0 + 1


class ClosedOpen(_Openings):
    """C-SPARQL ``[RANGE 10s STEP 5s]``: elements from the opening, the opening included, until before the closing."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """Until the last of the windows that hold the element has closed."""
        slide = self.window.slide
        return t + 1, t0 + (t - t0) // slide * slide + self.window.width + 1


class Star(_Openings):
    """RSP-QL* with ``COMPUTED EVERY``: the last window ``[opening, closing)`` whose closing is before the instant."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """From the first to the last of the closings after which the element is in the last closed window."""
        width, slide = self.window.width, self.window.slide
        start = t0 + width + np.maximum(0, (t - t0 - width) // slide + 1) * slide + 1
        return start, t0 + (t - t0) // slide * slide + width + slide + 1

    @property
    def report_period(self) -> int:
        """The duration of COMPUTED EVERY."""
        return self.window.step


class Past(_TimeWindow):
    """SPARQLstream ``[NOW - 60s TO NOW - 30s]``: from ``width`` before the instant until ``slide`` before it."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """While the element is of that age."""
        return t + self.window.slide, t + self.window.width

    def closings(self, t0: int, first: int, last: int) -> Times | None:
        """With a SLIDE as those of a window that opens each ``step``."""
        origin, step = t0 + self.window.width, self.window.step
        return periodic(origin, step, max(first, origin), last) if step else None


class Last(CountWindowKind):
    """``[TRIPLES 3]``, ``[ELEMENTS 3 STEP 2]``: the last ``count`` elements, counted whenever ``every`` more have arrived."""

    def ranks(self, rank: Times) -> tuple[Times, Times]:
        """The next move of the window from the element on, and from the ``count``-th after it on."""
        every = self.window.every or 1
        return (rank + every) // every * every - 1, (rank + self.window.count + every) // every * every - 1


class All(WindowKind):
    """``[ALL]``: every element so far."""

    def interval(self, t: Times, t0: int) -> tuple[Times, Times]:
        """Without end."""
        return t, np.full_like(t, FOREVER)

    @property
    def reach(self) -> int | None:
        """No element leaves."""
        return None


KINDS: Final[Mapping[str, type[WindowKind]]] = {
    "now": Now,
    "range": Range,
    "grid": Grid,
    "delta": DeltaWindow,
    "purged": Purged,
    "open-closed": OpenClosed,
    "closed-open": ClosedOpen,
    "star": Star,
    "past": Past,
    "last": Last,
    "all": All,
}
"""The built-in kinds by the name that :attr:`Window.kind` has."""


def kind_of(window: Window) -> WindowKind:
    """A window as its kind reads it. Raises InputError where neither this package nor an installed one has the kind."""
    kind: type[WindowKind] = KINDS.get(window.kind) or plugins.load_class("windows", window.kind, WindowKind)
    return kind(window)


def of_engine(window: Window, kinds: Mapping[str, str]) -> Window:
    """The window as an engine reads it: ``kinds`` maps the kinds of a query's text to those of the engine."""
    return replace(window, kind=kinds.get(window.kind, window.kind))


def with_window_bounds(window: Window, bounds: Literal["open-closed", "closed-open"]) -> Window:
    """The window with the ends that ``--bounds`` selects, where it is a window (α, β, t0) with one of these two."""
    return replace(window, kind=bounds) if isinstance(kind_of(window), OpenClosed | ClosedOpen) else window
