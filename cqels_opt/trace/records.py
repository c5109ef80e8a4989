"""The trace record: what happened in one micro-batch of one query, and why (INTERFACE, "The trace"; DESIGN §10).

A record is one JSON object on one line. Its keys are stable: keys may be added but never removed. Reading checks the type of each
known key and ignores keys of newer versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cqels_opt.errors import DataError, InputError
from cqels_opt.trace.json_values import (
    an_object,
    finite,
    flag,
    get,
    list_of,
    maybe,
    no_number,
    number,
    rows,
    text,
    time_range,
    whole,
)


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The cheapest plan that was not chosen."""

    plan: str
    cost: float | None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE."""
        return {"plan": self.plan, "cost": finite(self.cost)}

    @classmethod
    def from_json(cls, value: object) -> RunnerUp:
        """The inverse of :meth:`to_json`; raises ValueError with the name of a key that is absent or of another type."""
        fields = an_object(value)
        return cls(get(fields, "plan", text), get(fields, "cost", maybe(number)))


@dataclass(frozen=True, slots=True)
class Moved:
    """A statistic whose change altered the order of plans; None means not observed."""

    statistic: str
    was: float | None
    now: float | None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE; ``now`` is its ``is``."""
        return {"statistic": self.statistic, "was": finite(self.was), "is": finite(self.now)}

    @classmethod
    def from_json(cls, value: object) -> Moved:
        """The inverse of :meth:`to_json`."""
        fields = an_object(value)
        return cls(get(fields, "statistic", text), get(fields, "was", maybe(number)), get(fields, "is", maybe(number)))


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """A physical operator that ran: the relation that it probed, its variables, and its output rows (None: unknown).

    ``by`` names the join method, if not all joins of the plan were replicated probes.
    """

    op: str
    relation: str
    on: tuple[str, ...]
    estimated: float | None
    observed: int | None
    by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE."""
        return {
            "op": self.op,
            "relation": self.relation,
            "on": list(self.on),
            "estimated": finite(self.estimated),
            "observed": self.observed,
            **({"by": self.by} if self.by is not None else {}),
        }

    @classmethod
    def from_json(cls, value: object) -> OperatorRecord:
        """The inverse of :meth:`to_json`."""
        fields = an_object(value)
        return cls(
            get(fields, "op", text),
            get(fields, "relation", text),
            get(fields, "on", list_of(text)),
            get(fields, "estimated", maybe(number)),
            get(fields, "observed", maybe(whole)),
            text(fields["by"]) if "by" in fields else None,
        )

    @property
    def q_error(self) -> float | None:
        """max(e, o) / min(e, o), both at least 1; None if either is unknown."""
        if self.estimated is None or self.observed is None:
            return None
        estimated, observed = max(self.estimated, 1.0), max(float(self.observed), 1.0)
        return max(estimated, observed) / min(estimated, observed)


@dataclass(frozen=True, slots=True)
class Delta:
    """A delta source's plan in one batch: the chosen plan and its cost, the runner-up, and the operators that ran.

    ``former`` are earlier plans with their costs in this batch.
    """

    source: str
    plan: str
    cost: float | None = None
    runner_up: RunnerUp | None = None
    switched: bool = False
    reason: tuple[Moved, ...] = ()
    operators: tuple[OperatorRecord, ...] = ()
    former: tuple[RunnerUp, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE."""
        return {
            "source": self.source,
            "plan": self.plan,
            "cost": finite(self.cost),
            "runner_up": self.runner_up.to_json() if self.runner_up else None,
            "switched": self.switched,
            "reason": [moved.to_json() for moved in self.reason],
            "operators": [operator.to_json() for operator in self.operators],
            **({"former": [plan.to_json() for plan in self.former]} if self.former else {}),
        }

    @classmethod
    def from_json(cls, value: object) -> Delta:
        """The inverse of :meth:`to_json`."""
        fields = an_object(value)
        return cls(
            get(fields, "source", text),
            get(fields, "plan", text),
            get(fields, "cost", maybe(number)),
            get(fields, "runner_up", maybe(RunnerUp.from_json)),
            get(fields, "switched", flag),
            get(fields, "reason", list_of(Moved.from_json)),
            get(fields, "operators", list_of(OperatorRecord.from_json)),
            get(fields, "former", list_of(RunnerUp.from_json)) if "former" in fields else (),
        )

    @property
    def others(self) -> dict[str, float | None]:
        """The known costs of the plans that were not chosen."""
        return {other.plan: other.cost for other in (*self.former, *((self.runner_up,) if self.runner_up else ()))}


@dataclass(frozen=True, slots=True)
class SubResults:
    """A block starts to use other materialized static sub-patterns with this batch, or a sub-result could not be computed.

    ``was`` and ``now`` name its static relations. ``cost`` is that of a batch under the old design, ``price`` that under the new
    one, ``saved`` the savings the new one would have had since the old one was chosen; all in the cost model's unit.
    """

    block: str
    was: tuple[str, ...]
    now: tuple[str, ...]
    cost: float | None = None
    price: float | None = None
    saved: float | None = None
    failed: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of docs/trace.md; ``now`` is its ``is``."""
        return {
            "block": self.block,
            "was": list(self.was),
            "is": list(self.now),
            "cost": finite(self.cost),
            "price": finite(self.price),
            "saved": finite(self.saved),
            "failed": self.failed,
        }

    @classmethod
    def from_json(cls, value: object) -> SubResults:
        """The inverse of :meth:`to_json`."""
        fields = an_object(value)
        return cls(
            get(fields, "block", text),
            get(fields, "was", list_of(text)),
            get(fields, "is", list_of(text)),
            get(fields, "cost", maybe(number)),
            get(fields, "price", maybe(number)),
            get(fields, "saved", maybe(number)),
            get(fields, "failed", maybe(text)),
        )


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """The milliseconds of each phase of a batch."""

    ingest: float = 0.0
    statistics: float = 0.0
    optimize: float = 0.0
    execute: float = 0.0
    commit: float = 0.0

    PHASES = ("ingest", "statistics", "optimize", "execute", "commit")

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE."""
        return {phase: getattr(self, phase) for phase in self.PHASES}

    @classmethod
    def from_json(cls, value: object) -> Milliseconds:
        """The inverse of :meth:`to_json`."""
        fields = an_object(value)
        return cls(*(get(fields, phase, number) for phase in cls.PHASES))

    @property
    def total(self) -> float:
        """The sum of all phases."""
        return self.ingest + self.statistics + self.optimize + self.execute + self.commit


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a run is behind its input (None: unknown).

    ``time`` is the newest time of the input that has been read, minus the frontier, in milliseconds. ``waiting`` is the number of
    micro-batches of a replay, or of files in live folders, that have not been started.
    """

    time: int | None = None
    waiting: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of docs/trace.md."""
        return {"time": self.time, "waiting": self.waiting}

    @classmethod
    def from_json(cls, value: object) -> Lag:
        """The inverse of :meth:`to_json`."""
        fields = an_object(value)
        return cls(get(fields, "time", maybe(whole)), get(fields, "waiting", maybe(whole)))


@dataclass(frozen=True, slots=True)
class Called:
    """The calls of an extension function in a batch.

    ``rows`` for which it was called, their ``distinct`` arguments, how many of these were looked up in the cache, the ``hits``,
    and the milliseconds of the remaining calls.
    """

    call: str
    rows: int
    distinct: int
    looked_up: int
    hits: int
    ms: float

    def __add__(self, other: Called) -> Called:
        """The sum of two batches; ``distinct`` counts per batch."""
        return Called(
            self.call,
            self.rows + other.rows,
            self.distinct + other.distinct,
            self.looked_up + other.looked_up,
            self.hits + other.hits,
            self.ms + other.ms,
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON object of docs/trace.md."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Called:
        """The inverse of :meth:`to_json`."""
        fields = an_object(value)
        counted, distinct, looked_up, hits = (get(fields, name, whole) for name in ("rows", "distinct", "looked_up", "hits"))
        return cls(get(fields, "call", text), counted, distinct, looked_up, hits, get(fields, "ms", number))


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One micro-batch of one query.

    ``time_range`` is the least and greatest time of its elements (None: no elements), ``frontier`` the time up to which answers
    are final (None: none yet), both in milliseconds; ``windows`` the rows of each window after the batch; ``epoch`` the epoch of
    the statistics; ``jobs`` the number of Spark jobs; ``fallback`` why the optimizer used a greedy order (None: it did not);
    ``instances`` how many queries share this plan; ``sub_results`` their changes; ``lag`` how far the run is behind its input;
    ``recomputed`` the input rows of operators above the joins (None: all of these are row-wise); ``calls`` the calls of extension
    functions; ``static`` the version of the static store that this batch is the first to use, and the previous one (None:
    unchanged); ``notices`` sentences about the input (files that changed after they were read, the first rejected elements) and
    about errors that do not affect answers.
    """

    batch: int
    query: str
    time_range: tuple[int, int] | None
    frontier: int | None
    elements: int
    late: int = 0
    rejected: int = 0
    windows: Mapping[str, int] = field(default_factory=dict)
    deltas: tuple[Delta, ...] = ()
    epoch: int = 0
    ms: Milliseconds = Milliseconds()
    jobs: int = 0
    fallback: str | None = None
    instances: int = 1
    sub_results: tuple[SubResults, ...] = ()
    lag: Lag = Lag()
    recomputed: int | None = None
    calls: tuple[Called, ...] = ()
    static: tuple[int, int] | None = None
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE; optional keys are omitted if they have no value."""
        record = {
            "batch": self.batch,
            "query": self.query,
            "time_range": list(self.time_range) if self.time_range else None,
            "frontier": self.frontier,
            "elements": self.elements,
            "late": self.late,
            "rejected": self.rejected,
            "windows": dict(self.windows),
            "deltas": [delta.to_json() for delta in self.deltas],
            "epoch": self.epoch,
            "ms": self.ms.to_json(),
            "jobs": self.jobs,
            "fallback": self.fallback,
            "lag": self.lag.to_json(),
        }
        if self.instances != 1:
            record["instances"] = self.instances
        if self.sub_results:
            record["sub_results"] = [change.to_json() for change in self.sub_results]
        if self.recomputed is not None:
            record["recomputed"] = self.recomputed
        if self.calls:
            record["calls"] = [call.to_json() for call in self.calls]
        if self.static is not None:
            record["static"] = {"version": self.static[0], "was": self.static[1]}
        if self.notices:
            record["notices"] = list(self.notices)
        return record

    def line(self) -> str:
        """The record as one line, with its newline."""
        return json.dumps(self.to_json(), ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, value: object) -> TraceRecord:
        """The inverse of :meth:`to_json`; raises ValueError with the name of a key that is absent or of another type."""
        fields = an_object(value)
        return cls(
            batch=get(fields, "batch", whole),
            query=get(fields, "query", text),
            time_range=get(fields, "time_range", maybe(time_range)),
            frontier=get(fields, "frontier", maybe(whole)),
            elements=get(fields, "elements", whole),
            late=get(fields, "late", whole),
            rejected=get(fields, "rejected", whole),
            windows=get(fields, "windows", rows),
            deltas=get(fields, "deltas", list_of(Delta.from_json)),
            epoch=get(fields, "epoch", whole),
            ms=get(fields, "ms", Milliseconds.from_json),
            jobs=get(fields, "jobs", whole),
            fallback=get(fields, "fallback", maybe(text)),
            instances=get(fields, "instances", whole) if "instances" in fields else 1,
            sub_results=get(fields, "sub_results", list_of(SubResults.from_json)) if "sub_results" in fields else (),
            lag=get(fields, "lag", Lag.from_json) if "lag" in fields else Lag(),
            recomputed=get(fields, "recomputed", whole) if "recomputed" in fields else None,
            calls=get(fields, "calls", list_of(Called.from_json)) if "calls" in fields else (),
            static=get(fields, "static", _versions) if "static" in fields else None,
            notices=get(fields, "notices", list_of(text)) if "notices" in fields else (),
        )

    @property
    def switches(self) -> tuple[Delta, ...]:
        """The delta sources whose plan changed in this batch."""
        return tuple(delta for delta in self.deltas if delta.switched)


def _versions(value: object) -> tuple[int, int]:
    fields = an_object(value)
    return get(fields, "version", whole), get(fields, "was", whole)


def read_trace(path: Path) -> Iterator[TraceRecord]:
    """The records of a trace file in order, read lazily. An incomplete last line is ignored.

    Raises:
        InputError: the file cannot be read.
        DataError: a line is not a trace record; the message begins with ``file:line:``.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if (record := parse_line(line, f"{path}:{number}")) is not None:
                    yield record
    except OSError as error:
        raise InputError(f"{path}: cannot read the trace: {error.strerror}") from error


def parse_line(line: bytes, place: str) -> TraceRecord | None:
    """The record of a line, including its newline; None if the line is empty or incomplete.

    Raises :class:`DataError`, which begins with ``place``, if it is damaged or not a record.
    """
    if not line.strip():
        return None
    begun = line.lstrip().startswith(b"{")
    try:
        return TraceRecord.from_json(json.loads(line.rstrip(b"\r\n").decode(), parse_constant=no_number))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        if begun and not line.endswith(b"\n"):
            return None
        reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else "not UTF-8 text"
        what = "a trace record that is cut off or damaged" if begun else "not a trace record: not JSON"
        raise DataError(f"{place}: {what} ({reason})") from error
    except ValueError as error:
        raise DataError(f"{place}: not a trace record that this version reads: {error}") from error
