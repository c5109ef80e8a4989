"""The interface of a running adaptive join, however its plans are made."""

from __future__ import annotations

import json
import logging
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import LimitError, first_line
from cqels_opt.lod.locations import hadoop_uri, state_folder
from cqels_opt.planner import batch_report
from cqels_opt.plans import Plan
from cqels_opt.plans.explain import Format
from cqels_opt.relational.planner import JoinPlanner
from cqels_opt.runtime.limits import NO_LIMITS, Limits
from cqels_opt.spark.batch_jobs import BatchJobs
from cqels_opt.spark.drop_in import DropIn
from cqels_opt.spark.sinks import BatchFunction
from cqels_opt.trace.listener import ListenerLike
from cqels_opt.trace.records import TraceRecord
from cqels_opt.trace.writer import TraceFile

_log = logging.getLogger("cqels_opt.join")


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """How a join runs: the keywords of :meth:`AdaptiveJoin.batch`, checked. ``lateness`` is in milliseconds."""

    then: BatchFunction
    state: str | Path | None = None
    trace: str | Path | None = None
    name: str = "join"
    mode: str | Mapping[str, Plan] = "adaptive"
    lateness: int = 0
    limits: Limits = NO_LIMITS
    allow_gap: bool = False
    listener: ListenerLike | None = None


class StateFolder:
    """The ``folder`` of a join's state: the user's, or a temporary one with the small files of a state at a ``uri``.

    ``temporary``: a join without a state has such a folder too; otherwise it has None.
    """

    def __init__(self, state: str | Path | None, temporary: bool) -> None:
        self.uri = hadoop_uri(state)
        self.folder = state_folder(state, "state").absolute() if state is not None and self.uri is None else None
        if self.folder is None and (temporary or self.uri is not None):
            self._temporary = tempfile.TemporaryDirectory(prefix="cqels-opt-join-")
            self.folder = Path(self._temporary.name)


class Answers(Protocol):
    """The answers of a micro-batch, which nothing has computed yet."""

    @property
    def frame(self) -> DataFrame:
        """The answers."""

    def count(self) -> int:
        """Computes the answers, and keeps them until they are released."""

    def release(self) -> None:
        """Frees the memory of kept answers."""


Found = TypeVar("Found", bound=Answers)


class JoinRun(DropIn):
    """What :meth:`AdaptiveJoin.batch` and :meth:`AdaptiveQuery.batch` return: pass it to ``foreachBatch``; it reports plans, switches and
    statistics. ``last`` is the trace record of the last micro-batch."""

    last: TraceRecord | None = None
    then: BatchFunction
    _again: ClassVar[str]
    """What runs if an action on the answers fails."""
    _runner: BatchJobs | None
    _trace: TraceFile | None
    _cancelled = False

    def __repr__(self) -> str:
        done = f"after batch {self.last.batch}" if self.last is not None else "before its first batch"
        return f"JoinRun({self.name!r}, {done})"

    @property
    @abstractmethod
    def _last_planner(self) -> JoinPlanner | None:
        """The planner; None before there are statistics."""

    @property
    def switches(self) -> int:
        """The number of plan changes for new rows of all relations."""
        with self._lock:
            return self._last_planner.switches if self._last_planner is not None else 0

    def plans(self) -> dict[str, str]:
        """The plan of the new rows of each relation over the stream in the last micro-batch, or in the last one that was sampled."""
        with self._lock:
            return self._last_planner.plans() if self._last_planner is not None else {}

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Rows, distinct keys and join sizes after the last micro-batch."""

    @abstractmethod
    def explain(self, format: Format = "text", alternatives: int = 0, analyze: bool = False) -> str:
        """The plans of the last micro-batch, with the estimated and the observed rows of their operators.

        ``analyze`` adds how long the phases took, what the runner-up would have cost with the observed rows, and the plans that Spark ran
        in that micro-batch, with Spark's own metrics: rows, milliseconds, bytes and skew of each node.
        """

    def wait_for_counts(self) -> None:
        """Waits until the relations have been counted, where that is done in the background."""

    # ------------------------------------------------------------------ a batch
    def _runner_on(self, session: SparkSession) -> BatchJobs:
        runner = BatchJobs(session)
        if self._trace is not None:
            runner.link_to(self._trace.path)
        return runner

    def _begin(self, runner: BatchJobs, session: SparkSession, number: int) -> None:
        runner.spark, self._cancelled = session, False
        runner.begin(number, [self.name])

    def _cancel(self) -> None:
        self._cancelled = True
        if self._runner is not None:
            self._runner.cancel()

    @contextmanager
    def _answered(self, found: Found, number: int, as_written: Callable[[], Found | None]) -> Iterator[tuple[Found, str | None]]:
        """Calls ``then`` with the answers of a micro-batch, which are released at the end of the block.

        If an action on them fails in Spark, ``then`` is called once more, with the answers of ``as_written``, unless that is None or the
        plan cannot be the cause. Yields the answers of the last call, and why it was called twice, if it was.
        """
        why = None
        try:
            try:
                self._emit(found, number)
            except (PySparkException, Py4JError) as error:
                if self._cancelled or isinstance(error, AnalysisException):
                    raise
                found.release()
                if (again := as_written()) is None:
                    raise
                why = f"{self._again}: {first_line(error)[:200]}"
                _log.warning("%s, batch %d: %s", self.name, number, why)
                found = again
                self._emit(found, number)
            yield found, why
        finally:
            found.release()

    def _emit(self, found: Answers, number: int) -> None:
        if self.limits.rows is not None and (why := self.limits.broken(rows=found.count())):
            raise LimitError(why)
        self.then(found.frame, number)


def analyzed(
    planner: JoinPlanner | None,
    format: Format,
    alternatives: int,
    last: TraceRecord | None,
    runner: BatchJobs,
    reason: str | None = None,
    age: int | None = 0,
) -> str:
    """EXPLAIN ANALYZE of a micro-batch: its plans and what Spark ran.

    ``reason`` is why Spark's own plan ran, if it did. The plans are then estimates, for the sample that was taken ``age`` micro-batches
    before; None: there has been none.
    """
    described = planner is not None and bool(planner.decisions)
    if format == "dot" or last is None:
        head = "no micro-batch has run yet, so nothing is measured\n" if format == "text" else ""
        return head + (planner.explain(format, alternatives) if planner is not None and described else "")
    plans, ran = planner if described else None, runner.executed()
    if format == "json":
        found = json.loads(plans.explain(format, alternatives, analyze=True)) if plans is not None else {"deltas": []}
        more = {
            "spark_plan": reason,
            "sample_age": age if plans is not None else None,
            "batches": [batch_report.described(last)],
            "executed": [one.to_json() for one in ran],
        }
        return json.dumps(found | more, indent=2, ensure_ascii=False)
    text = [batch_report.head(last, by_spark=True)]
    if plans is not None:
        text += [*([_origin(age)] if reason is not None else []), plans.explain(format, alternatives, analyze=True).rstrip()]
    return "\n\n".join([*text, *(one.text() for one in ran)]) + "\n"


def _origin(age: int | None) -> str:
    """What estimated plans are for."""
    match age:
        case None:
            of = "the counts of the other relations; the micro-batch has not been sampled"
        case 0:
            of = "a sample of this micro-batch"
        case _:
            of = f"the last sample, {age} micro-batch{'es' if age > 1 else ''} before"
    return f"Join orders that the optimizer compared, by {of}:"
