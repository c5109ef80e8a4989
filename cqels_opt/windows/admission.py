"""Which elements of a live source are admitted: those that are neither late nor too far ahead of earlier elements (docs/semantics.md).

Both are decided for one element after the other, in the order of the partition, from times alone. So neither the cut into batches nor a
restart changes the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.windows.intervals import BEFORE_TIME

Ints: TypeAlias = "NDArray[np.int64]"
Mask: TypeAlias = "NDArray[np.bool_]"


@dataclass(frozen=True, slots=True)
class Admitted:
    """Which elements of a partition are late, which are too far ahead, and the greatest time so far.

    ``after`` is the greatest time before each element that is too far ahead; ``suspect`` is the time of the last element if it is too
    far ahead.
    """

    late: Mask
    ahead: Mask
    after: tuple[int, ...]
    greatest: int | None
    suspect: int | None


@dataclass(frozen=True, slots=True)
class Admission:
    """The rule, and the progress of each partition. Durations are in milliseconds; ``max_ahead`` None: no element is too far ahead.

    ``greatest`` has the greatest time of each partition; ``suspects`` has the time of its last element if that was too far ahead.
    """

    greatest: Mapping[int, int] = field(default_factory=dict)
    suspects: Mapping[int, int] = field(default_factory=dict)
    lateness: int = 0
    max_ahead: int | None = None

    def judge(self, partition: int, t: Ints) -> Admitted:
        """Judges the next elements of a partition, in its order."""
        known, suspect = self.greatest.get(partition), self.suspects.get(partition)
        if not len(t):
            return Admitted(np.zeros(0, bool), np.zeros(0, bool), (), known, suspect)
        running = np.maximum.accumulate(np.concatenate([[BEFORE_TIME if known is None else known], t]))
        before, none = running[:-1], np.zeros(len(t), bool)
        if self.max_ahead is None or not ((t > before + self.max_ahead) & (before > BEFORE_TIME)).any():
            return Admitted(t <= before - 1 - self.lateness, none, (), int(running[-1]), None)
        return self._one_by_one(t, known, suspect, self.max_ahead)

    def after(self, judged: Mapping[int, Admitted]) -> Admission:
        """The rule for the elements after these."""
        greatest = {number: found.greatest for number, found in judged.items() if found.greatest is not None}
        suspects = {number: time for number, time in self.suspects.items() if number not in judged}
        suspects |= {number: found.suspect for number, found in judged.items() if found.suspect is not None}
        return replace(self, greatest={**self.greatest, **greatest}, suspects=suspects)

    def _one_by_one(self, t: Ints, greatest: int | None, suspect: int | None, max_ahead: int) -> Admitted:
        """As :meth:`judge` where some are too far ahead: each of these decides how the next element is judged."""
        late, ahead, after = np.zeros(len(t), bool), np.zeros(len(t), bool), list[int]()
        for place, time in enumerate(t.tolist()):
            agrees = (
                suspect is not None and abs(time - suspect) <= max_ahead
            )  # with the element before it: the whole stream has jumped ahead
            if greatest is not None and time > greatest + max_ahead and not agrees:
                ahead[place], suspect = True, time
                after.append(greatest)
                continue
            late[place] = greatest is not None and time <= greatest - 1 - self.lateness
            greatest, suspect = time if greatest is None else max(greatest, time), None
        return Admitted(late, ahead, tuple(after), greatest, suspect)

    def reason(self, time: int, after: int) -> str:
        """Why an element is rejected."""
        return (
            f"t is {_shown(time)}, more than the maximum of {self.max_ahead:,} ms after {_shown(after)}, the greatest time before it; "
            "if the times are right, allow more"
        )


def _shown(time: int) -> str:
    return f"{np.datetime_as_string(np.datetime64(time, 'ms'))}Z"
