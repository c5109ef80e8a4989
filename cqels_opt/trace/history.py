"""The history in a trace as data: plans and the batches that used them, switches and their reasons, estimates, slow batches.

The terminal view and the page render these dataclasses without further computation. Records are added one by one, so that a
running job has a history too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median, quantiles

from cqels_opt.trace.excess import ExcessCost
from cqels_opt.trace.figures import clock, duration, plural
from cqels_opt.trace.plan_figures import cost_figure
from cqels_opt.trace.records import Called, Milliseconds, OperatorRecord, SubResults, TraceRecord
from cqels_opt.trace.regret import Regret
from cqels_opt.trace.savings import Savings, headline
from cqels_opt.trace.source_history import SourceBuilder, SourceHistory, Switch
from cqels_opt.trace.stopped_plans import StoppedPlans

SLOWEST = 5
MOST_NOTES = 20
"""The number of notices that are kept, the newest ones: a job whose input has bad elements in each batch has three per batch."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """The q-errors of one relation's probes (1 is exact): their number, median, 95th percentile and maximum."""

    relation: str
    known: int
    median: float
    p95: float
    greatest: float


@dataclass(frozen=True, slots=True)
class SlowBatch:
    """One of the slowest batches."""

    batch: int
    time: int | None
    elements: int
    ms: Milliseconds


@dataclass(frozen=True, slots=True)
class NewVersion:
    """The first batch with a new version of the static store; ``record`` is its index among the query's records."""

    record: int
    batch: int
    time: int | None
    was: int
    now: int

    def __str__(self) -> str:
        return f"batch {self.batch}, {clock(self.time)}: version {self.now} in the place of version {self.was}"


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """All data of one query that the views show. ``instances`` queries share its plans.

    ``failed`` are the batches with which the query, or some that share its plans, failed, and why. ``notes`` are the newest of all
    ``noted`` notices. ``text`` is the query, empty if the trace does not have it. ``unit`` is that of the costs, None in traces that do
    not name it.
    ``above`` are the operators above the joins in the last batch that ran any. ``alone``: the run has no other query, so that all of its
    time is of this one.
    """

    query: str
    instances: int
    batches: int
    elements: int
    late: int
    rejected: int
    most_jobs: int
    first_time: int | None
    last_time: int | None
    ms: Milliseconds
    median_ms: float
    switched: int
    sources: tuple[SourceHistory, ...]
    estimates: tuple[Estimates, ...]
    slowest: tuple[SlowBatch, ...]
    fallbacks: tuple[str, ...]
    failed: tuple[str, ...] = ()
    sub_results: tuple[str, ...] = ()
    lag: str = ""
    versions: tuple[NewVersion, ...] = ()
    calls: tuple[Called, ...] = ()
    notes: tuple[str, ...] = ()
    noted: int = 0
    text: str = ""
    unit: str | None = None
    above: tuple[OperatorRecord, ...] = ()
    alone: bool = True

    @property
    def switches(self) -> tuple[Switch, ...]:
        """The switches of all delta sources, in batch order."""
        return tuple(sorted((switch for source in self.sources for switch in source.switches), key=lambda switch: switch.record))

    @property
    def regret(self) -> Regret:
        """The regret of all switches."""
        return sum((source.regret for source in self.sources), Regret())

    @property
    def savings(self) -> Savings:
        """What adapting saved in all delta sources."""
        return sum((source.savings for source in self.sources), Savings())

    @property
    def excess(self) -> ExcessCost:
        """What the plans of all delta sources cost over the cheapest ones in hindsight."""
        return sum((source.excess for source in self.sources), ExcessCost())

    @property
    def stopped(self) -> StoppedPlans:
        """The plans of all delta sources that were stopped in mid-batch."""
        return sum((source.stopped for source in self.sources), StoppedPlans())

    @property
    def headline(self) -> tuple[str, ...]:
        """See :func:`cqels_opt.trace.savings.headline`; then the plans that were stopped, and the excess cost, where rows were observed."""
        sentences = headline(self.savings, self.switched, self.unit, self.ms.optimize, not self.alone)
        return (*sentences, *filter(None, [self.stopped.sentence, self.excess.sentence(self.unit)]))


class Histories:
    """The histories of a trace's queries, updated record by record.

    ``newest`` bounds the number of kept switches per delta source, batch times and q-errors per relation, so that memory stays
    bounded however long a job runs.
    """

    def __init__(self, newest: int | None = None) -> None:
        self._newest = newest
        self._queries: dict[str, _Query] = {}

    def add(self, record: TraceRecord) -> None:
        """Adds the next record."""
        if record.query not in self._queries:
            self._queries[record.query] = _Query(record.query, self._newest)
        self._queries[record.query].add(record)

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries in order of first occurrence."""
        return tuple(self._queries)

    def of(self, query: str) -> QueryHistory:
        """The history of a query so far. Raises KeyError for a query without records."""
        return replace(self._queries[query].history(), alone=len(self._queries) == 1)

    def letters(self, query: str) -> dict[str, str]:
        """The letters of the current plans, by delta source."""
        return self._queries[query].letters()


def histories(records: Iterable[TraceRecord]) -> list[QueryHistory]:
    """The history of each query of a trace, in order of first occurrence."""
    found = Histories()
    for record in records:
        found.add(record)
    return [found.of(query) for query in found.queries]


class _Query:
    """Builds the history of a query."""

    def __init__(self, query: str, newest: int | None) -> None:
        self._query, self._newest = query, newest
        self._instances = 1
        self._text = ""
        self._unit: str | None = None
        self._above: tuple[OperatorRecord, ...] = ()
        self._batches = self._elements = self._late = self._rejected = self._most_jobs = 0
        self._first: int | None = None
        self._last: int | None = None
        self._ms = Milliseconds()
        self._batch_ms = deque[float](maxlen=newest)
        self._sources: dict[str, SourceBuilder] = {}
        self._q_errors: dict[str, deque[float]] = {}
        self._slowest: list[tuple[float, int, SlowBatch]] = []
        self._fallbacks: dict[str, None] = {}
        self._failed = deque[str](maxlen=newest)
        self._sub_results = deque[str](maxlen=newest)
        self._versions = deque[NewVersion](maxlen=newest)
        self._notes, self._noted = deque[str](maxlen=MOST_NOTES), 0
        self._calls: dict[str, Called] = {}
        self._lag: dict[str, _Lag] = {"time": _Lag(), "waiting": _Lag()}

    def add(self, record: TraceRecord) -> None:
        """Adds the query's next record."""
        index = self._batches
        self._batches += 1
        self._instances = record.instances
        self._text = record.text or self._text
        self._unit = record.cost_unit if record.cost_unit is not None else self._unit
        self._above = record.operators or self._above
        self._elements += record.elements
        self._late += record.late
        self._rejected += record.rejected
        self._most_jobs = max(self._most_jobs, record.jobs)
        if record.time_range:
            first, last = record.time_range
            self._first = first if self._first is None else min(self._first, first)
            self._last = last if self._last is None else max(self._last, last)
        self._ms = Milliseconds(*(getattr(self._ms, phase) + getattr(record.ms, phase) for phase in Milliseconds.PHASES))
        self._batch_ms.append(record.ms.total)
        slow = SlowBatch(record.batch, record.stream_time, record.elements, record.ms)
        heapq.heappush(self._slowest, (record.ms.total, -index, slow))
        if len(self._slowest) > SLOWEST:
            heapq.heappop(self._slowest)
        if record.fallback:
            self._fallbacks[record.fallback] = None
        if record.failed is not None:
            self._failed.append(f"batch {record.batch}, {clock(record.stream_time)}: {record.failed}")
        self._sub_results.extend(_sub_results(record, change, self._unit) for change in record.sub_results)
        self._notes.extend(f"batch {record.batch}: {note}" for note in record.notices)
        self._noted += len(record.notices)
        if record.static is not None:
            now, was = record.static.version, record.static.was
            self._versions.append(NewVersion(index, record.batch, record.stream_time, was, now))
        for called in record.calls:
            before = self._calls.get(called.call)
            self._calls[called.call] = before + called if before else called
        self._lag["time"].add(record.lag.time, record.batch)
        self._lag["waiting"].add(record.lag.waiting, record.batch)
        for delta in record.deltas:
            if delta.source not in self._sources:
                self._sources[delta.source] = SourceBuilder(self._newest)
            self._sources[delta.source].add(index, record, delta)
            for operator in delta.operators:
                if (q := operator.q_error) is not None:
                    self._q_errors.setdefault(operator.relation, deque(maxlen=self._newest)).append(q)

    def letters(self) -> dict[str, str]:
        """The letters of the current plans, by delta source."""
        return {name: source.letter for name, source in self._sources.items()}

    def history(self) -> QueryHistory:
        """The history so far."""
        sources = tuple(source.history(name) for name, source in self._sources.items())
        return QueryHistory(
            query=self._query,
            instances=self._instances,
            batches=self._batches,
            elements=self._elements,
            late=self._late,
            rejected=self._rejected,
            most_jobs=self._most_jobs,
            first_time=self._first,
            last_time=self._last,
            ms=self._ms,
            median_ms=median(self._batch_ms),
            switched=sum(source.switched for source in sources),
            sources=sources,
            estimates=tuple(_estimates(relation, found) for relation, found in self._q_errors.items()),
            slowest=tuple(slow for _, _, slow in sorted(self._slowest, reverse=True, key=lambda entry: entry[:2])),
            fallbacks=tuple(self._fallbacks),
            failed=tuple(self._failed),
            lag=self._lag_line(),
            sub_results=tuple(self._sub_results),
            versions=tuple(self._versions),
            calls=tuple(self._calls.values()),
            notes=tuple(self._notes),
            noted=self._noted,
            text=self._text,
            unit=self._unit,
            above=self._above,
        )

    def _lag_line(self) -> str:
        """One line about how far the run was behind its input: at the end and at most; empty if unknown."""
        parts = []
        if (time := self._lag["time"]).most is not None:
            most, batch = time.most
            parts.append(f"{duration(time.last)} of stream time behind at the end, at most {duration(most)} (batch {batch})")
        if (waiting := self._lag["waiting"]).most is not None and waiting.most[0]:
            most, batch = waiting.most
            parts.append(f"{waiting.last:,} waiting at the end, at most {most:,} (batch {batch})")
        return "; ".join(parts)


@dataclass(slots=True)
class _Lag:
    """The last known value of a lag, and the maximum with the last batch that had it."""

    last: int = 0
    most: tuple[int, int] | None = None

    def add(self, value: int | None, batch: int) -> None:
        """Adds the value after a batch."""
        if value is not None:
            self.last = value
            self.most = (value, batch) if self.most is None else max(self.most, (value, batch))


def _sub_results(record: TraceRecord, change: SubResults, unit: str | None) -> str:
    """One line about a change of sub-results: the removed and the added ones with the costs, or why one could not be computed."""
    where = f"batch {record.batch}, {clock(record.stream_time)}, block {change.block}: "
    if change.failed is not None:
        return f"{where}a sub-result could not be made, {change.failed}"
    removed, added = (
        [name for name in some if name not in other] for some, other in ((change.was, change.now), (change.now, change.was))
    )
    return f"{where}{', '.join(removed)} -> {', '.join(added)}, cost {cost_figure(change.cost, unit)} -> {cost_figure(change.price, unit)}"


def _estimates(relation: str, q_errors: deque[float]) -> Estimates:
    p95 = quantiles(q_errors, n=20, method="inclusive")[-1] if len(q_errors) > 1 else q_errors[0]
    return Estimates(relation, len(q_errors), median(q_errors), p95, max(q_errors))


def totals(history: QueryHistory) -> str:
    """One line: numbers of batches, elements, late and rejected elements, switches, and the maximum of Spark jobs per batch, if any."""
    jobs = f", at most {plural(history.most_jobs, 'Spark job')} per batch" if history.most_jobs else ""
    return (
        f"{plural(history.batches, 'batch')}, {plural(history.elements, 'element')} ({history.late:,} late, "
        f"{history.rejected:,} rejected), {plural(history.switched, 'plan switch')}{jobs}"
    )
