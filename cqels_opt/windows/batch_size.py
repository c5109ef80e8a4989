"""The size of a replay's micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cqels_opt.errors import InputError


@dataclass(frozen=True, slots=True)
class BatchSize:
    """A micro-batch of a replay holds ``count`` elements over all streams, or ``duration`` milliseconds of stream time.

    The first one holds ``first`` of these, if that is more.
    """

    count: int = 0
    duration: int = 0
    first: int = 0

    def __post_init__(self) -> None:
        if (self.count > 0) == (self.duration > 0) or self.count < 0 or self.duration < 0:
            raise InputError(f"--batch must be a positive number of elements or a positive duration, not {self}")

    def __str__(self) -> str:
        size, first = (str(n) if self.count else f"{n}ms" for n in (self.count or self.duration, self.first))
        return f"{size} after {first}" if self.first else size


DEFAULT_BATCH: Final = BatchSize(count=5000)
