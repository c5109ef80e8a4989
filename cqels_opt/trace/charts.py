"""The charts of one query as bounded series, and all data of the page as one JSON object (docs/trace.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from cqels_opt.plans.figures import in_words
from cqels_opt.trace.history import QueryHistory, SlowBatch
from cqels_opt.trace.records import Delta, OperatorRecord, TraceRecord
from cqels_opt.trace.savings import Savings, first_plan
from cqels_opt.trace.series import Points, Series
from cqels_opt.trace.source_history import PlanUse, SourceHistory, Switch
from cqels_opt.trace.trees import plan_trees

MOST_PLANS = 24
"""Maximum plans per delta source whose costs are drawn, by first use. The number of plans with a split delta is unbounded."""
MOST_RELATIONS = 60
"""Maximum relations per delta source whose rows are drawn; names in brackets are bushy parts, which can be many."""
MOST_TREES = 300
Named = dict[str, Series]


class SourceCharts:
    """The series of one delta source: costs by plan, the cost of the cheapest plan not chosen, and rows by relation."""

    def __init__(self) -> None:
        self.costs: Named = {}
        self.other: Named = {"runner_up": Series()}
        self.estimated: Named = {}
        self.observed: Named = {}

    def add(self, point: int, delta: Delta) -> None:
        """Adds a record's values for this source."""
        _put(self.costs, delta.plan, point, delta.cost, MOST_PLANS)
        if delta.runner_up:
            self.other["runner_up"].put(point, delta.runner_up.cost)
        for plan, cost in delta.others.items():
            if plan in self.costs and plan != delta.plan:
                self.costs[plan].put(point, cost)
        for name, operator in named_operators(delta.operators):
            _put(self.estimated, name, point, operator.estimated, MOST_RELATIONS)
            _put(self.observed, name, point, operator.observed, MOST_RELATIONS)

    @property
    def all(self) -> tuple[Named, ...]:
        """All series, by kind."""
        return self.costs, self.other, self.estimated, self.observed


class Charts:
    """The series of one query."""

    def __init__(self) -> None:
        self.points = Points()
        self.batch: Named = {}
        self.phases: Named = {}
        self.windows: Named = {}
        self.sources: dict[str, SourceCharts] = {}
        self._first: dict[str, str] = {}  # the first plan of each source

    def add(self, record: TraceRecord) -> None:
        """Adds the query's next record."""
        point = self.points.next(record.batch, record.stream_time, self._all())
        values = {
            "elements": record.elements,
            "late": record.late,
            "rejected": record.rejected,
            "lag": record.lag.time,
            "waiting": record.lag.waiting,
            "jobs": record.jobs,
            "recomputed": record.recomputed,
            "ms": record.ms.total,
            "saved": self._saved(record),
        }
        for name, value in values.items():
            _put(self.batch, name, point, value)
        for phase in record.ms.PHASES:
            _put(self.phases, phase, point, getattr(record.ms, phase))
        for name, rows in record.windows.items():
            _put(self.windows, name, point, rows)
        for delta in record.deltas:
            if delta.source not in self.sources:
                self.sources[delta.source] = SourceCharts()
            self.sources[delta.source].add(point, delta)

    def _saved(self, record: TraceRecord) -> float | None:
        """What the plans of a batch saved over the first plans; None if nothing can be compared."""
        self._first |= {d.source: first_plan(d, self._first.get(d.source)) for d in record.deltas}
        found = [Savings.of_delta(d, self._first[d.source]) for d in record.deltas]
        return sum(one.saved for one in found) if any(one.compared for one in found) else None

    def _all(self) -> Iterator[Named]:
        yield from (self.batch, self.phases, self.windows)
        for source in self.sources.values():
            yield from source.all

    @property
    def values(self) -> int:
        """The total number of points of its series."""
        return len(self.points) * sum(len(named) for named in self._all())


def named_operators(operators: tuple[OperatorRecord, ...]) -> Iterator[tuple[str, OperatorRecord]]:
    """The operators of a batch by relation; a split delta has two per relation, the second plan's are named with ``(2)``."""
    seen: dict[str, int] = {}
    for operator in operators:
        seen[operator.relation] = number = seen.get(operator.relation, 0) + 1
        yield (operator.relation if number == 1 else f"{operator.relation} ({number})"), operator


def _put(named: Named, name: str, point: int, value: float | None, most: int | None = None) -> None:
    if value is None or (name not in named and most is not None and len(named) >= most):
        return
    if name not in named:
        named[name] = Series()
    named[name].put(point, value)


# ------------------------------------------------------------------ as JSON
def query_json(history: QueryHistory, charts: Charts, merged: int) -> dict[str, Any]:
    """The JSON object of a query; each point combines ``merged`` neighbouring points."""
    length = -(-len(charts.points) // merged)

    def drawn(named: Mapping[str, Series]) -> dict[str, Any]:
        return {name: (one if merged == 1 else one.merged(merged)).to_json(length) for name, one in named.items()}

    statistics: dict[str, int] = {}
    sources = [_source_json(source, statistics) for source in history.sources]
    for found in sources:
        series = charts.sources[found["source"]]
        found["costs"] = drawn(series.costs)
        found |= drawn(series.other)
        found["estimated"], found["observed"] = drawn(series.estimated), drawn(series.observed)
    return {
        "query": history.query,
        "headline": list(history.headline),
        "savings": savings_json(history),
        "text": history.text,
        "instances": history.instances,
        "alone": history.alone,
        "batches": history.batches,
        "elements": history.elements,
        "late": history.late,
        "rejected": history.rejected,
        "switched": history.switched,
        "most_jobs": history.most_jobs,
        "first_time": history.first_time,
        "last_time": history.last_time,
        "ms": history.ms.to_json(),
        "median_ms": history.median_ms,
        "lag": history.lag,
        "failed": list(history.failed),
        "fallbacks": list(history.fallbacks),
        "sub_results": list(history.sub_results),
        "versions": [
            {"record": v.record, "batch": v.batch, "time": v.time, "was": v.was, "now": v.now} for v in history.versions
        ],
        "calls": [called.to_json() for called in history.calls],
        "points": charts.points.to_json(merged),
        "batch": drawn(charts.batch),
        "phases": drawn(charts.phases),
        "windows": drawn(charts.windows),
        "sources": sources,
        "statistics": list(map(in_words, statistics)),
        "estimates": [
            {"relation": e.relation, "known": e.known, "median": e.median, "p95": e.p95, "greatest": e.greatest}
            for e in sorted(history.estimates, key=lambda e: -e.p95)
        ],
        "above": [operator.to_json() for operator in history.above],
        "notes": list(history.notes),
        "noted": history.noted,
        "slowest": [_slow_json(slow) for slow in history.slowest],
    }


def _source_json(source: SourceHistory, statistics: dict[str, int]) -> dict[str, Any]:
    place = {use.plan: number for number, use in enumerate(source.plans)}
    drawn = {use.plan for use in sorted(source.plans, key=lambda use: -use.batches)[:MOST_TREES]}
    return {
        "source": source.source,
        "plans": [_plan_json(use, use.plan in drawn) for use in source.plans],
        "reigns": [[reign.first, reign.last, place[reign.plan]] for reign in source.reigns],
        "switched": source.switched,
        "switches": [_switch_json(switch, place, statistics) for switch in source.switches],
    }


def _plan_json(use: PlanUse, drawn: bool) -> dict[str, Any]:
    return {
        "letter": use.letter,
        "plan": use.plan,
        "batches": use.batches,
        "ms": use.ms,
        "cost": use.cost,
        "operators": [operator.to_json() for operator in use.ran],
        "trees": plan_trees(use.plan) if drawn else None,
    }


def _switch_json(switch: Switch, place: Mapping[str, int], statistics: dict[str, int]) -> dict[str, Any]:
    """A switch; statistics and plans are indexes into the query's ``statistics`` and the source's ``plans``."""
    outcome, share = switch.since.outcome
    return {
        "record": switch.record,
        "batch": switch.batch,
        "time": switch.time,
        "from": place[switch.before],
        "to": place[switch.after],
        "cost": switch.cost,
        "instead_of": switch.instead_of,
        "since": {
            "batches": switch.since.batches,
            "outcome": outcome,
            "share": share,
            "saved": switch.since.saved - switch.since.lost,
        },
        "reason": [[statistics.setdefault(m.statistic, len(statistics)), m.was, m.now] for m in switch.reason],
        "before": [_ran_json(operator) for operator in switch.ran_before],
        "after": [_ran_json(operator) for operator in switch.ran],
    }


def _ran_json(operator: OperatorRecord) -> list[float | None]:
    """Estimated and observed rows; also milliseconds and skew if they were measured."""
    rows = [operator.estimated, operator.observed]
    return rows if operator.ms is None else [*rows, operator.ms, operator.skew]


def savings_json(history: QueryHistory) -> dict[str, Any]:
    """What adapting saved in a query, and what its plans cost in hindsight: the numbers of its headline."""
    return {**asdict(history.savings), "unit": history.unit, "hindsight": asdict(history.excess)}


def _slow_json(slow: SlowBatch) -> dict[str, Any]:
    return {"batch": slow.batch, "time": slow.time, "elements": slow.elements, "ms": slow.ms.to_json()}
