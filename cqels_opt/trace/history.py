"""The history in a trace as data: plans and the batches that used them, switches and their reasons, estimates, slow batches.

The terminal view and the page render these dataclasses without further computation. Records are added one by one, so that a
running job has a history too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median, quantiles

from cqels_opt.trace.figures import clock, duration, figure, plural
from cqels_opt.trace.records import Called, Delta, Milliseconds, Moved, OperatorRecord, SubResults, TraceRecord
from cqels_opt.trace.regret import Regret

SLOWEST = 5


@dataclass(frozen=True, slots=True)
class Reign:
    """A maximal run of batches in which a delta source kept one plan; ``first`` and ``last`` index the query's records."""

    first: int
    last: int
    plan: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A plan change of a delta source: the batch, both plans with their costs, and the statistics that changed.

    ``record`` is the index among the query's records. ``ran_before`` are the operators of the last batch with the old plan,
    ``ran`` those of this batch. ``since`` compares both plans in the batches until the next switch.
    """

    record: int
    batch: int
    time: int | None
    source: str
    before: str
    after: str
    cost: float | None
    instead_of: float | None
    reason: tuple[Moved, ...]
    ran_before: tuple[OperatorRecord, ...] = ()
    ran: tuple[OperatorRecord, ...] = ()
    since: Regret = field(default_factory=Regret)


@dataclass(frozen=True, slots=True)
class PlanUse:
    """A plan of a delta source: its letter, the number of its batches, their total milliseconds, and its cost in the last one.

    ``ran`` are the operators of the last batch that used it.
    """

    letter: str
    plan: str
    batches: int
    ms: float
    cost: float | None
    ran: tuple[OperatorRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """A delta source: its plans in order of first use, and its plan runs and switches in time order.

    If only the newest switches are kept, ``switched`` counts all of them, and ``regret`` is of all of them.
    """

    source: str
    plans: tuple[PlanUse, ...]
    reigns: tuple[Reign, ...]
    switches: tuple[Switch, ...]
    switched: int
    regret: Regret

    def letter(self, plan: str) -> str:
        """The letter of one of its plans, ``?`` for another plan."""
        return next((use.letter for use in self.plans if use.plan == plan), "?")


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
    """All data of one query that the views show. ``instances`` queries share its plans."""

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
    sub_results: tuple[str, ...] = ()
    lag: str = ""
    versions: tuple[NewVersion, ...] = ()
    calls: tuple[Called, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def switches(self) -> tuple[Switch, ...]:
        """The switches of all delta sources, in batch order."""
        return tuple(sorted((switch for source in self.sources for switch in source.switches), key=lambda switch: switch.record))

    @property
    def regret(self) -> Regret:
        """The regret of all switches."""
        return sum((source.regret for source in self.sources), Regret())


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
        return self._queries[query].history()

    def letters(self, query: str) -> dict[str, str]:
        """The letters of the current plans, by delta source."""
        return self._queries[query].letters()


def histories(records: Iterable[TraceRecord]) -> list[QueryHistory]:
    """The history of each query of a trace, in order of first occurrence."""
    found = Histories()
    for record in records:
        found.add(record)
    return [found.of(query) for query in found.queries]


class _Source:
    """Builds the history of a delta source."""

    def __init__(self, newest: int | None) -> None:
        self._newest = newest
        self._uses: dict[str, PlanUse] = {}
        self._numbered = 0  # number of plans so far, for the next plan's letter
        self._reigns = deque[Reign](maxlen=newest)
        self._switches = deque[Switch](maxlen=newest)
        self._switched = 0
        self._regret = Regret()  # of all switches but the last
        self._last: tuple[int, float, float] = (0, 0.0, 0.0)  # batches, cost and regret of the last one

    def add(self, index: int, record: TraceRecord, delta: Delta) -> None:
        """Adds a record's data for this source."""
        before = self._reigns[-1] if self._reigns else None
        if before and before.plan == delta.plan:
            self._reigns[-1] = Reign(before.first, index, delta.plan)
        else:
            self._reigns.append(Reign(index, index, delta.plan))
        if before and before.plan != delta.plan:
            instead_of = delta.others.get(before.plan)
            ran = self._uses[before.plan].ran, delta.operators
            self._regret, self._last = self._regret + Regret.of_switch(*self._last), (0, 0.0, 0.0)
            place = index, record.batch, _time(record), delta.source
            self._switches.append(Switch(*place, before.plan, delta.plan, delta.cost, instead_of, delta.reason, *ran))
            self._switched += 1
        compared = delta.former and self._switches and delta.former[0].plan == self._switches[-1].before
        if compared and delta.cost is not None and delta.regret is not None:
            batches, cost, regret = self._last
            self._last = batches + 1, cost + delta.cost, regret + delta.regret
            self._switches[-1] = replace(self._switches[-1], since=Regret.of_switch(*self._last))
        use = self._uses.get(delta.plan)
        letter, batches, ms = (use.letter, use.batches, use.ms) if use else (self._next_letter(), 0, 0.0)
        self._uses[delta.plan] = PlanUse(letter, delta.plan, batches + 1, ms + record.ms.total, delta.cost, delta.operators)

    @property
    def letter(self) -> str:
        """The letter of the current plan."""
        return self._uses[self._reigns[-1].plan].letter

    def history(self, name: str) -> SourceHistory:
        """The history so far."""
        plans = tuple(self._uses.values())
        regret = self._regret + Regret.of_switch(*self._last)
        return SourceHistory(name, plans, tuple(self._reigns), tuple(self._switches), self._switched, regret)

    def _next_letter(self) -> str:
        """The letter of a new plan; also drops plans that no kept switch mentions, if there are too many."""
        if self._newest is not None and len(self._uses) > 2 * self._newest:
            parts = {plan for switch in self._switches for plan in (switch.before, switch.after)}
            self._uses = {plan: use for plan, use in self._uses.items() if plan in parts}
        self._numbered += 1
        return _letter(self._numbered - 1)


class _Query:
    """Builds the history of a query."""

    def __init__(self, query: str, newest: int | None) -> None:
        self._query, self._newest = query, newest
        self._instances = 1
        self._batches = self._elements = self._late = self._rejected = self._most_jobs = 0
        self._first: int | None = None
        self._last: int | None = None
        self._ms = Milliseconds()
        self._batch_ms = deque[float](maxlen=newest)
        self._sources: dict[str, _Source] = {}
        self._q_errors: dict[str, deque[float]] = {}
        self._slowest: list[tuple[float, int, SlowBatch]] = []
        self._fallbacks: dict[str, None] = {}
        self._sub_results = deque[str](maxlen=newest)
        self._versions = deque[NewVersion](maxlen=newest)
        self._notes = deque[str](maxlen=newest)
        self._calls: dict[str, Called] = {}
        self._lag: dict[str, _Lag] = {"time": _Lag(), "waiting": _Lag()}

    def add(self, record: TraceRecord) -> None:
        """Adds the query's next record."""
        index = self._batches
        self._batches += 1
        self._instances = record.instances
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
        slow = SlowBatch(record.batch, _time(record), record.elements, record.ms)
        heapq.heappush(self._slowest, (record.ms.total, -index, slow))
        if len(self._slowest) > SLOWEST:
            heapq.heappop(self._slowest)
        if record.fallback:
            self._fallbacks[record.fallback] = None
        self._sub_results.extend(_sub_results(record, change) for change in record.sub_results)
        self._notes.extend(f"batch {record.batch}: {note}" for note in record.notices)
        if record.static is not None:
            now, was = record.static.version, record.static.was
            self._versions.append(NewVersion(index, record.batch, _time(record), was, now))
        for called in record.calls:
            before = self._calls.get(called.call)
            self._calls[called.call] = before + called if before else called
        self._lag["time"].add(record.lag.time, record.batch)
        self._lag["waiting"].add(record.lag.waiting, record.batch)
        for delta in record.deltas:
            if delta.source not in self._sources:
                self._sources[delta.source] = _Source(self._newest)
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
            lag=self._lag_line(),
            sub_results=tuple(self._sub_results),
            versions=tuple(self._versions),
            calls=tuple(self._calls.values()),
            notes=tuple(self._notes),
        )

    def _lag_line(self) -> str:
        """One line about how far the run was behind its input: at the end and at most; empty if unknown."""
        parts = []
        if (time := self._lag["time"]).most is not None:
            most, batch = time.most
            parts.append(f"{duration(time.last)} of stream time behind at the end, at most {duration(most)} (batch {batch})")
        if (waiting := self._lag["waiting"]).most is not None:
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


def _sub_results(record: TraceRecord, change: SubResults) -> str:
    """One line about a change of sub-results: the removed and the added ones with the costs, or why one could not be computed."""
    where = f"batch {record.batch}, {clock(_time(record))}, block {change.block}: "
    if change.failed is not None:
        return f"{where}a sub-result could not be made, {change.failed}"
    removed, added = (
        [name for name in some if name not in other] for some, other in ((change.was, change.now), (change.now, change.was))
    )
    return f"{where}{', '.join(removed)} -> {', '.join(added)}, cost {figure(change.cost)} -> {figure(change.price)}"


def _letter(number: int) -> str:
    """A, B, … Z, A1, B1, …"""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def _estimates(relation: str, q_errors: deque[float]) -> Estimates:
    p95 = quantiles(q_errors, n=20, method="inclusive")[-1] if len(q_errors) > 1 else q_errors[0]
    return Estimates(relation, len(q_errors), median(q_errors), p95, max(q_errors))


def _time(record: TraceRecord) -> int | None:
    return record.time_range[1] if record.time_range else record.frontier


def totals(history: QueryHistory) -> str:
    """One line: numbers of batches, elements, late and rejected elements, switches, and the maximum of Spark jobs per batch."""
    return (
        f"{plural(history.batches, 'batch')}, {plural(history.elements, 'element')} ({history.late:,} late, "
        f"{history.rejected:,} rejected), {plural(history.switched, 'plan switch')}, "
        f"at most {plural(history.most_jobs, 'Spark job')} a batch"
    )
