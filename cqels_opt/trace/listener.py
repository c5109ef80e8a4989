"""Reports each micro-batch to listeners and to :mod:`logging`: its figures, changes of plans, fallbacks, notices, failures.

The loggers are below ``cqels_opt``. A batch and a change of a plan are logged at INFO, fallbacks and other notices at WARNING, failures at
ERROR. The library installs no handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeAlias

from cqels_opt.errors import InputError
from cqels_opt.trace.figures import batch_times, plural
from cqels_opt.trace.plan_figures import moved_statistics
from cqels_opt.trace.records import SPARK_PLAN, Delta, TraceRecord

logger = logging.getLogger(__name__)
P = ParamSpec("P")


class Listener:
    """Gets the events of a run. Override what you need; each method does nothing by default.

    The methods run in the thread of the micro-batch, in the driver, after the batch is committed. An exception is logged as a
    warning and does not fail the batch.
    """

    def on_batch(self, record: TraceRecord) -> None:
        """A micro-batch has ended: its trace record, one per query (or per queries that share a plan)."""

    def on_switch(self, record: TraceRecord, delta: Delta) -> None:
        """A delta source has another plan than in the batch before; called after :meth:`on_batch`."""

    def on_failure(self, query: str | None, batch: int, error: Exception) -> None:
        """A micro-batch has failed, or a query has ended because it exceeded a limit (LimitError).

        ``query`` is None if a run of several queries has failed.
        """


OnBatch: TypeAlias = Callable[[TraceRecord], object]
"""A function that gets the record of each micro-batch, as :meth:`Listener.on_batch`."""
ListenerLike: TypeAlias = Listener | OnBatch | Sequence[Listener | OnBatch]
"""What ``listener=`` takes: a :class:`Listener`, a function of a record, or several of these."""


class _FunctionListener(Listener):
    """A function as a listener."""

    def __init__(self, function: OnBatch) -> None:
        self._function = function

    def on_batch(self, record: TraceRecord) -> None:
        """Calls the function."""
        self._function(record)


def listeners_of(given: ListenerLike | None) -> tuple[Listener, ...]:
    """The listeners that ``listener=`` names. Raises InputError for other objects."""
    if given is None:
        return ()
    if isinstance(given, Listener):
        return (given,)
    if callable(given):
        return (_FunctionListener(given),)
    if isinstance(given, list | tuple):
        return tuple(listener for one in given for listener in listeners_of(one))
    raise InputError(f"listener={given!r}: give a function of a trace record, a cqels_opt.Listener, or a list of these")


class BatchReporter:
    """Calls the listeners of a run, and logs."""

    def __init__(self, listener: ListenerLike | None = None) -> None:
        self._listeners = listeners_of(listener)

    def batches(self, records: Sequence[TraceRecord]) -> None:
        """Reports the records of a committed micro-batch."""
        for record in records:
            _log(record)
            for listener in self._listeners:
                _call(listener.on_batch, record)
                for delta in record.switches:
                    _call(listener.on_switch, record, delta)

    def failure(self, query: str | None, batch: int, error: Exception) -> None:
        """Reports that a micro-batch has failed, or that a query has ended."""
        logger.error("%s batch %d: %s", query or "all queries", batch, str(error) or type(error).__name__)
        for listener in self._listeners:
            _call(listener.on_failure, query, batch, error)


def _call(method: Callable[P, None], *given: P.args, **named: P.kwargs) -> None:
    try:
        method(*given, **named)
    except Exception:
        logger.warning(
            "the listener's %s failed; the batch is not affected", getattr(method, "__name__", "method"), exc_info=True
        )


def _log(record: TraceRecord) -> None:
    place = f"{record.query} batch {record.batch}"
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s: %s", place, summary(record))
        for delta in record.switches:
            before = f"{delta.former[0].plan} -> " if delta.former else ""
            why = moved_statistics(delta.reason)
            logger.info("%s: the plan of %s has changed: %s%s (%s)", place, delta.source, before, delta.plan, why)
    if record.fallback:
        logger.warning("%s: fallback: %s", place, record.fallback)
    for notice in record.notices:
        logger.log(logging.INFO if notice.startswith(SPARK_PLAN) else logging.WARNING, "%s: %s", place, notice)


def summary(record: TraceRecord) -> str:
    """One line about a batch: its elements, answers, time by phase, Spark jobs and plans."""
    uncounted = not record.elements and any(notice.startswith(SPARK_PLAN) for notice in record.notices)
    counts = [] if uncounted else [plural(record.elements, "element")]
    counts += [f"{number:,} {what}" for number, what in ((record.late, "late"), (record.rejected, "rejected")) if number]
    counts += [plural(record.answers, "answer")] if record.answers is not None else []
    plans = "; ".join(delta.plan for delta in record.deltas)
    return ", ".join([*counts, batch_times(record.ms), plural(record.jobs, "Spark job"), *([f"plan {plans}"] if plans else [])])


__all__ = ["BatchReporter", "Listener", "ListenerLike", "OnBatch", "listeners_of", "summary"]
