"""Times of the phases of a micro-batch."""

from __future__ import annotations

import time

from cqels_opt.trace.records import Milliseconds


class PhaseTimer:
    """Milliseconds by phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Ends a phase now."""
        now = time.perf_counter()
        self.laps[phase] = round(self.laps.get(phase, 0.0) + 1000 * (now - self.last), 3)
        self.last = now

    def done(self) -> Milliseconds:
        """All phases."""
        return Milliseconds(**self.laps)
