"""What a trace says over time, as data: plans and how long each ruled, switches and their reasons, estimates, slow batches.

The terminal view and the page are renderings of these dataclasses; they compute nothing themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median, quantiles

from cqels_opt.trace.records import Delta, Milliseconds, Moved, SubResults, TraceRecord

SLOWEST = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reign:
    """An unbroken run of batches in which a delta source kept one plan; ``first`` and ``last`` count the query's records."""

    first: int
    last: int
    plan: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A delta source took another plan: when, from what to what, at which costs, and the statistics that moved."""

    batch: int
    time: int | None
    source: str
    before: str
    after: str
    cost: float | None
    instead_of: float | None
    reason: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class PlanUse:
    """A plan of a delta source: its letter, the batches it ruled, the milliseconds that those took, its cost in the last one."""

    letter: str
    plan: str
    batches: int
    ms: float
    cost: float | None


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """A delta source: its plans in the order in which they first ruled, and its reigns in the order of time."""

    source: str
    plans: tuple[PlanUse, ...]
    reigns: tuple[Reign, ...]
    switches: tuple[Switch, ...]

    def letter(self, plan: str) -> str:
        """The letter of one of its plans."""
        return next((use.letter for use in self.plans if use.plan == plan), "?")


@dataclass(frozen=True, slots=True)
class Estimates:
    """The q-errors of one relation's probes (1 is exact): how many are known, their median, 95th percentile and maximum."""

    relation: str
    known: int
    median: float
    p95: float
    greatest: float


@dataclass(frozen=True, slots=True)
class SlowBatch:
    """One of the batches that took longest."""

    batch: int
    time: int | None
    elements: int
    ms: Milliseconds


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """Everything that the views show of one query."""

    query: str
    batches: int
    elements: int
    late: int
    rejected: int
    most_jobs: int
    first_time: int | None
    last_time: int | None
    ms: Milliseconds
    median_ms: float
    batch_ms: tuple[float, ...]
    sources: tuple[SourceHistory, ...]
    estimates: tuple[Estimates, ...]
    slowest: tuple[SlowBatch, ...]
    fallbacks: tuple[str, ...]
    sub_results: tuple[str, ...] = ()
    lag: str = ""

    @property
    def switches(self) -> tuple[Switch, ...]:
        """The switches of all delta sources, in the order of the batches."""
        return tuple(sorted((switch for source in self.sources for switch in source.switches), key=lambda switch: switch.batch))


@dataclass(slots=True)
class _Source:
    """A delta source while its history is being read."""

    uses: dict[str, tuple[int, float, float | None]] = field(default_factory=dict)
    reigns: list[Reign] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)


def histories(records: Iterable[TraceRecord]) -> list[QueryHistory]:
    """The history of each query of a trace, in the order in which the queries first occur."""
    by_query: dict[str, list[TraceRecord]] = {}
    for record in records:
        by_query.setdefault(record.query, []).append(record)
    return [_history(query, own) for query, own in by_query.items()]


def _history(query: str, records: Sequence[TraceRecord]) -> QueryHistory:
    sources: dict[str, _Source] = {}
    q_errors: dict[str, list[float]] = {}
    for index, record in enumerate(records):
        for delta in record.deltas:
            _follow(sources.setdefault(delta.source, _Source()), index, record, delta)
            for operator in delta.operators:
                if (q := operator.q_error) is not None:
                    q_errors.setdefault(operator.relation, []).append(q)
    times = [time for record in records if record.time_range for time in record.time_range]
    batch_ms = tuple(record.ms.total for record in records)
    return QueryHistory(
        query=query,
        batches=len(records),
        elements=sum(record.elements for record in records),
        late=sum(record.late for record in records),
        rejected=sum(record.rejected for record in records),
        most_jobs=max(record.jobs for record in records),
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        ms=Milliseconds(*(sum(getattr(record.ms, phase) for record in records) for phase in Milliseconds.PHASES)),
        median_ms=median(batch_ms),
        batch_ms=batch_ms,
        sources=tuple(_source_history(name, source) for name, source in sources.items()),
        estimates=tuple(_estimates(relation, found) for relation, found in q_errors.items()),
        slowest=tuple(
            SlowBatch(record.batch, _time(record), record.elements, record.ms)
            for record in sorted(records, key=lambda record: -record.ms.total)[:SLOWEST]
        ),
        fallbacks=tuple(dict.fromkeys(record.fallback for record in records if record.fallback)),
        lag=_lag(records),
        sub_results=tuple(_sub_results(record, change) for record in records for change in record.sub_results),
    )


def _lag(records: Sequence[TraceRecord]) -> str:
    """A line on how far the run was behind its input: at the end and at most; empty where nothing is known."""
    told = []
    if times := [(record.lag.time, record.batch) for record in records if record.lag.time is not None]:
        most, batch = max(times)
        told.append(f"{duration(times[-1][0])} of stream time behind at the end, at most {duration(most)} (batch {batch})")
    if waiting := [(record.lag.waiting, record.batch) for record in records if record.lag.waiting is not None]:
        most, batch = max(waiting)
        told.append(f"{waiting[-1][0]:,} waiting at the end, at most {most:,} (batch {batch})")
    return "; ".join(told)


def _sub_results(record: TraceRecord, change: SubResults) -> str:
    """A line on a change of sub-results: what went, what came instead, and at which costs; or what could not be made."""
    where = f"batch {record.batch}, {clock(_time(record))}, block {change.block}: "
    if change.failed is not None:
        return f"{where}a sub-result could not be made, {change.failed}"
    gone, come = (
        [name for name in some if name not in other] for some, other in ((change.was, change.now), (change.now, change.was))
    )
    return f"{where}{', '.join(gone)} -> {', '.join(come)}, cost {figure(change.cost)} -> {figure(change.price)}"


def _follow(source: _Source, index: int, record: TraceRecord, delta: Delta) -> None:
    batches, ms, _ = source.uses.get(delta.plan, (0, 0.0, None))
    source.uses[delta.plan] = (batches + 1, ms + record.ms.total, delta.cost)
    before = source.reigns[-1] if source.reigns else None
    if before and before.plan == delta.plan:
        source.reigns[-1] = Reign(before.first, index, delta.plan)
        return
    source.reigns.append(Reign(index, index, delta.plan))
    if before:
        runner_up = delta.runner_up
        instead_of = runner_up.cost if runner_up and runner_up.plan == before.plan else None
        source.switches.append(
            Switch(record.batch, _time(record), delta.source, before.plan, delta.plan, delta.cost, instead_of, delta.reason)
        )


def _source_history(name: str, source: _Source) -> SourceHistory:
    plans = tuple(
        PlanUse(_letter(number), plan, batches, ms, cost)
        for number, (plan, (batches, ms, cost)) in enumerate(source.uses.items())
    )
    return SourceHistory(name, plans, tuple(source.reigns), tuple(source.switches))


def _letter(number: int) -> str:
    """A, B, … Z, A1, B1, …"""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def _estimates(relation: str, q_errors: Sequence[float]) -> Estimates:
    p95 = quantiles(q_errors, n=20, method="inclusive")[-1] if len(q_errors) > 1 else q_errors[0]
    return Estimates(relation, len(q_errors), median(q_errors), p95, max(q_errors))


def _time(record: TraceRecord) -> int | None:
    return record.time_range[1] if record.time_range else record.frontier


# ------------------------------------------------------------------ how both views write figures
def clock(time: int | None) -> str:
    """Stream time in UTC, with milliseconds only where there are some; ``-`` where there is none."""
    if time is None:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        return f"{time} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{time % 1000:03}" if time % 1000 else "")


def duration(ms: float) -> str:
    """Milliseconds for people: ``85 ms``, ``2.4 s``, ``3 min 05 s``."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{int(ms // 60_000)} min {int(ms % 60_000 // 1000):02} s"


def figure(number: float | None) -> str:
    """A number for people: whole with thousands, small to three digits; ``-`` where it is not known."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:.3g}"


def known(number: float | None) -> str:
    """:func:`figure`, with words where the number is not known."""
    return "unknown" if number is None else figure(number)


def plural(number: int, noun: str) -> str:
    """``1 switch``, ``2 switches``."""
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "s")) else "s"
    return f"{number:,} {noun}{ending}"


def totals(history: QueryHistory) -> str:
    """One line: batches, elements, late and rejected ones, switches, and the most jobs that a batch took."""
    return (
        f"{plural(history.batches, 'batch')}, {plural(history.elements, 'element')} ({history.late:,} late, "
        f"{history.rejected:,} rejected), {plural(len(history.switches), 'plan switch')}, "
        f"at most {plural(history.most_jobs, 'Spark job')} a batch"
    )
