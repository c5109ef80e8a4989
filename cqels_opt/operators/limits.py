"""What a query may take: beyond it the query fails, and the job that it is part of goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from cqels_opt.errors import InputError, LimitError
from cqels_opt.operators.driver import Sink
from cqels_opt.operators.evaluate import FinishReport, Format
from cqels_opt.operators.program import Program


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a micro-batch: the ``rows`` of the answers, and the ``seconds`` that it takes; of the state: its ``bytes`` on the disk.

    None: as many as there are.
    """

    rows: int | None = None
    seconds: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not value > 0:
                raise InputError(f"limits: {one.name}={value!r} allows nothing; None is no limit")

    def broken(self, rows: int = 0, bytes: int = 0) -> str | None:
        """What is too much, as the reason of a failure."""
        if self.rows is not None and rows > self.rows:
            return f"{rows:,} rows of answers in a micro-batch, more than the limit of {self.rows:,}"
        if self.bytes is not None and bytes > self.bytes:
            return f"{bytes:,} bytes of state, more than the limit of {self.bytes:,}"
        return None


NO_LIMITS = Limits()


class LimitedSink:
    """Puts out no more rows of answers than the limits allow: none of a batch that has more."""

    def __init__(self, to: Sink, limits: Limits) -> None:
        self.to, self.limits = to, limits
        self.format: Format = to.format

    def restore(self, lengths: Mapping[str, int]) -> None:
        """See :class:`Sink`."""
        self.to.restore(lengths)

    def put(self, batch: int, chunks: Sequence[tuple[Program, FinishReport]], folder: Path) -> dict[str, int]:
        """See :class:`Sink`; LimitError where there are too many."""
        if why := self.limits.broken(rows=sum(report.answers for _, report in chunks)):
            raise LimitError(why)
        return self.to.put(batch, chunks, folder)
