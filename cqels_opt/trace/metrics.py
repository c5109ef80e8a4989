"""Prometheus metrics of running jobs: counters, gauges and a histogram from their trace records.

Names have the prefix ``cqels_opt_``; times are in seconds. Queries are labels: queries that share a plan share a label.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from importlib.metadata import version
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from cqels_opt.errors import InputError
from cqels_opt.trace.listener import Listener
from cqels_opt.trace.records import TraceRecord

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 60.0)
_BY_QUERY = ("query",)
_BY_SOURCE = ("query", "source")


class Metrics(Listener):
    """The metrics of runs since the start of this process, in a registry. As a listener it adds what it gets."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        Info("cqels_opt", "What runs", registry=registry).info({"version": version("cqels-opt")})

        def counter(name: str, what: str, labels: tuple[str, ...] = _BY_QUERY) -> Counter:
            return Counter(f"cqels_opt_{name}", what, labels, registry=registry)

        def gauge(name: str, what: str, labels: tuple[str, ...] = _BY_QUERY) -> Gauge:
            return Gauge(f"cqels_opt_{name}", what, labels, registry=registry)

        self._counts = {
            "elements": counter("elements", "Elements read"),
            "late": counter("late_elements", "Elements dropped as late"),
            "rejected": counter("rejected_elements", "Elements skipped as bad"),
            "answers": counter("answers", "Answers emitted"),
            "jobs": counter("spark_jobs", "Spark jobs of the micro-batches"),
        }
        self._failures = counter("failures", "Failed micro-batches, and queries that ended because they exceeded a limit")
        self._switches = counter("plan_switches", "Plans that were changed", _BY_SOURCE)
        self._phases = counter("phase_seconds", "Time spent, by phase of the micro-batch", ("query", "phase"))
        self._seconds = Histogram(
            "cqels_opt_batch_duration_seconds", "Time of a micro-batch", _BY_QUERY, buckets=_SECONDS, registry=registry
        )
        self._batch = gauge("last_batch", "Number of the last micro-batch")
        self._ended = gauge("last_batch_end_timestamp_seconds", "When the last micro-batch ended")
        self._frontier = gauge("frontier_timestamp_seconds", "Stream time up to which answers are final")
        self._lag = gauge("lag_seconds", "Newest time of the input minus the frontier")
        self._waiting = gauge("input_waiting", "Micro-batches of a replay, or files of live folders, that have not been begun")
        self._instances = gauge("instances", "Queries that share the plan")
        self._windows = gauge("window_rows", "Rows of a window", ("query", "window"))
        self._cost = gauge("plan_cost", "Estimated cost of the plan that ran last, in the cost model's unit", _BY_SOURCE)
        self._q_error = gauge("plan_q_error", "Greatest q-error of the operators of the plan that ran last", _BY_SOURCE)

    def on_batch(self, record: TraceRecord) -> None:
        """Adds a record of a micro-batch that has just ended."""
        self.add((record,), time.time())

    def on_failure(self, query: str | None, batch: int, error: Exception) -> None:
        """Counts a failure; the label of a run of several queries is empty."""
        self._failures.labels(query or "").inc()

    def add(self, records: Iterable[TraceRecord], ended: float) -> None:
        """Adds the records of a micro-batch that ended at this time (Unix seconds)."""
        for record in records:
            self._add(record)
            self._ended.labels(record.query).set(ended)

    def _add(self, record: TraceRecord) -> None:
        query = record.query
        for name, counter in self._counts.items():
            counter.labels(query).inc(max(0, getattr(record, name) or 0))
        for phase in record.ms.PHASES:
            self._phases.labels(query, phase).inc(max(0.0, getattr(record.ms, phase)) / 1000)
        self._seconds.labels(query).observe(record.ms.total / 1000)
        self._batch.labels(query).set(record.batch)
        self._instances.labels(query).set(record.instances)
        if record.frontier is not None:
            self._frontier.labels(query).set(record.frontier / 1000)
        if record.lag.time is not None:
            self._lag.labels(query).set(record.lag.time / 1000)
        if record.lag.waiting is not None:
            self._waiting.labels(query).set(record.lag.waiting)
        for window, rows in record.windows.items():
            self._windows.labels(query, window).set(rows)
        for delta in record.deltas:
            self._switches.labels(query, delta.source).inc(delta.switched)
            if delta.cost is not None:
                self._cost.labels(query, delta.source).set(delta.cost)
            if q_errors := [q for operator in delta.operators if (q := operator.q_error) is not None]:
                self._q_error.labels(query, delta.source).set(max(q_errors))

    def text(self) -> bytes:
        """The metrics in Prometheus's text format."""
        return generate_latest(self._registry)


_by_registry = WeakKeyDictionary[CollectorRegistry, Metrics]()
_making = threading.Lock()


def metrics(registry: CollectorRegistry = REGISTRY) -> Metrics:
    """Prometheus metrics of runs, for ``listener=``; every call with one registry returns the same object.

    The default registry is that of ``prometheus_client``, so ``prometheus_client.start_http_server(9108)`` serves them. All metrics
    have the label ``query``, so give the runs of a process different names. docs/trace.md lists them.
    """
    if not isinstance(registry, CollectorRegistry):
        raise InputError(f"metrics(…) expects a CollectorRegistry of prometheus_client, not {type(registry).__name__}")
    with _making:
        if registry not in _by_registry:
            _by_registry[registry] = Metrics(registry)
        return _by_registry[registry]
