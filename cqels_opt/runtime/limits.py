"""What a query may take: beyond it the query fails, and the job that it is part of goes on."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cqels_opt.errors import InputError


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a micro-batch: the ``rows`` of the answers, and the ``seconds`` that it takes; of the state: its ``bytes`` on the disk; of each
    task: the bytes of ``memory`` that a result may take, at once.

    None: as many as there are; of memory a quarter of what the machine, or its container, has.
    """

    rows: int | None = None
    seconds: float | None = None
    bytes: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not value > 0:
                raise InputError(f"limits: {one.name}={value!r} allows nothing; None is no limit")

    def broken(self, rows: int = 0, seconds: float = 0.0, bytes: int = 0) -> str | None:
        """What is too much, as the reason of a failure."""
        if self.rows is not None and rows > self.rows:
            return f"{rows:,} rows of answers in a micro-batch, more than the limit of {self.rows:,}"
        if self.seconds is not None and seconds > self.seconds:
            return f"a micro-batch took {seconds:.3g} seconds, more than the limit of {self.seconds:g}"
        if self.bytes is not None and bytes > self.bytes:
            return f"{bytes:,} bytes of state, more than the limit of {self.bytes:,}"
        return None


NO_LIMITS = Limits()
