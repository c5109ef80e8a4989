"""How far the streams of a join have come, and the frontier: the time before which the rows of windows expire and later rows are dropped.

Relations that read one column of times are one stream. The frontier is the least of the latest times of the streams minus their
lateness, without streams that are idle. It is a function of the rows, except for idle streams: they are determined when a
micro-batch is committed, and the frontier of the next one is committed with it, so a repeated micro-batch has the same frontier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cqels_opt.windows.intervals import BEFORE_TIME


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event times of a stream: their column, and durations in milliseconds. It is idle after ``idle`` without rows; None: never."""

    column: str | None
    lateness: int = 0
    idle: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """``greatest`` has the latest time of each stream, ``heard`` the clock of the machine when a micro-batch last had rows of it.

    ``idle`` are the streams that the frontier does not wait for.
    """

    frontier: int = int(BEFORE_TIME)
    greatest: Mapping[str, int] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()

    def after(self, streams: Sequence[EventTime], times: Mapping[str, int], now: int) -> Progress:
        """The progress after a micro-batch with these latest times, committed at ``now``. The frontier never goes back."""
        greatest, heard = dict(self.greatest), dict(self.heard)
        for name in (stream.column for stream in streams if stream.column is not None):
            if name in times:
                greatest[name] = max(times[name], greatest.get(name, times[name]))
            heard[name] = now if name in times else heard.get(name, now)
        timed = [(stream.column, stream) for stream in streams if stream.column is not None]
        idle = tuple(name for name, stream in timed if stream.idle is not None and now - heard[name] >= stream.idle)
        waiting = [(name, stream) for name, stream in timed if name not in idle]
        frontier = self.frontier
        if waiting and all(name in greatest for name, _ in waiting):
            frontier = max(frontier, min(greatest[name] - stream.lateness for name, stream in waiting))
        return Progress(frontier, greatest, heard, idle)

    @property
    def begun(self) -> bool:
        """Whether the frontier has a time."""
        return self.frontier != int(BEFORE_TIME)

    def json(self) -> dict[str, Any]:
        """For a commit record."""
        return {
            "frontier": self.frontier,
            "greatest": dict(self.greatest),
            "heard": dict(self.heard),
            "idle": list(self.idle),
        }

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Progress:
        """From a commit record; the beginning if it has none."""
        if not record:
            return cls()
        return cls(int(record["frontier"]), record["greatest"], record["heard"], tuple(record["idle"]))


def added_columns(before: Sequence[Sequence[str]], now: Sequence[Sequence[str]]) -> list[str]:
    """The columns that a stream has now and its kept rows do not have: null in these. ValueError if another change is among them.

    Columns are pairs of a name and a type.
    """
    types = {name.lower(): kind for name, kind in now}
    known = {name.lower() for name, _ in before}
    for name, kind in before:
        if name.lower() not in types:
            raise ValueError(
                f"the stream no longer has the column {name}: add it as CAST(NULL AS {kind}) AS {name}, or use another folder"
            )
        if types[name.lower()] != kind:
            raise ValueError(
                f"the column {name} of the stream was {kind} and is {types[name.lower()]}: cast it to {kind}, or use another folder"
            )
    return [name for name, _ in now if name.lower() not in known]
