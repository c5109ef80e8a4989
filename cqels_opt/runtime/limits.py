"""The limits of a query. A query beyond its limits fails, and the other queries of the job continue."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral, Real

from cqels_opt.errors import InputError, option


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits per micro-batch: ``rows`` of the answers and ``seconds``; per state: ``bytes`` on the disk; per task: bytes of
    ``memory`` of a result; and before a micro-batch runs: the ``bound`` on the rows of each operator (docs/guarantees.md).

    None: unlimited; for memory a quarter of that of the machine, or of its container.
    """

    rows: int | None = None
    seconds: float | None = None
    bytes: int | None = None
    memory: int | None = None
    bound: int | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, Real | None):
                raise InputError(f"limits: {one.name}={value!r} is no number; None is no limit")
            if value is not None and not float(value) > 0:
                raise InputError(f"limits: {one.name}={value!r} allows nothing; None is no limit")
            if one.name != "seconds" and not isinstance(value, Integral | None):
                raise InputError(f"limits: {one.name}={value!r} is no whole number")

    def broken(self, rows: int = 0, seconds: float = 0.0, bytes: int = 0, bound: int = 0) -> str | None:
        """The reason of a failure, if a limit is exceeded."""
        if self.rows is not None and rows > self.rows:
            return f"{rows:,} rows of answers in a micro-batch, more than the limit of {self.rows:,}{_named('rows')}"
        if self.seconds is not None and seconds > self.seconds:
            return f"a micro-batch took {seconds:.3g} seconds, more than the limit of {self.seconds:g}{_named('seconds')}"
        if self.bytes is not None and bytes > self.bytes:
            return f"{bytes:,} bytes of state, more than the limit of {self.bytes:,}{_named('bytes')}"
        if self.bound is not None and bound > self.bound:
            return (
                f"an operator may give up to {bound:,} rows in a micro-batch, more than the limit of {self.bound:,}{_named('bound')};"
                " the micro-batch gives no answers"
            )
        return None


NO_LIMITS = Limits()


def checked(limits: object) -> Limits:
    """InputError for what are no limits."""
    if not isinstance(limits, Limits):
        raise InputError(f"limits={limits!r}: give Limits(rows=…, seconds=…); Limits() has none")
    return limits


_OPTIONS = {"rows": "--max-rows", "seconds": "--max-time", "bytes": "--max-state", "bound": "--max-bound"}


def _named(limit: str) -> str:
    """The option of a limit, in brackets."""
    return f" ({option(f'Limits({limit}=…)', _OPTIONS[limit])})"
