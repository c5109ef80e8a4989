"""The interface of a running adaptive join, however its plans are made."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from cqels_opt.relational.planner import Format
from cqels_opt.spark.drop_in import DropIn
from cqels_opt.trace.records import TraceRecord


class JoinRun(DropIn):
    """What :meth:`AdaptiveJoin.batch` and :meth:`AdaptiveQuery.batch` return: pass it to ``foreachBatch``; it reports plans, switches and
    statistics. ``last`` is the trace record of the last micro-batch."""

    last: TraceRecord | None = None

    @property
    @abstractmethod
    def switches(self) -> int:
        """The number of plan changes for new rows of all relations."""

    @abstractmethod
    def plans(self) -> dict[str, str]:
        """The plan of the new rows of each relation over the stream in the last micro-batch."""

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Rows, distinct keys and join sizes after the last micro-batch."""

    @abstractmethod
    def explain(self, format: Format = "text", alternatives: int = 0) -> str:
        """The plans of the last micro-batch, with the estimated and the observed rows of their operators."""

    def wait_for_counts(self) -> None:
        """Waits until the relations have been counted, where that is done in the background. Tests and benchmarks need it."""
