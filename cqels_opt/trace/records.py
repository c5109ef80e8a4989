"""The trace record: what happened in one micro-batch of one query, and why (INTERFACE, "The trace"; DESIGN §10).

A record is one JSON object on one line. Its keys are stable: keys may be added but never removed. Reading checks the type of each
known key and ignores keys of newer versions. The fields of each class, in their order, are the keys of its JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cqels_opt.errors import DataError, InputError
from cqels_opt.trace.json_values import OMITTED, OPTIONAL, JsonRecord, no_number

SPARK_PLAN = "Spark's own plan: "
"""Begins the notice that gives the reason why joins of DataFrames ran as Spark plans them. Most such micro-batches are not counted."""


@dataclass(frozen=True, slots=True)
class RunnerUp(JsonRecord):
    """The cheapest plan that was not chosen."""

    plan: str
    cost: float | None


@dataclass(frozen=True, slots=True)
class Moved(JsonRecord):
    """A statistic whose change altered the order of plans; None means not observed."""

    statistic: str
    was: float | None
    now: float | None


@dataclass(frozen=True, slots=True)
class OperatorRecord(JsonRecord):
    """A physical operator that ran: the relation that it probed, its variables, and its output rows (None: unknown).

    ``by`` names the join method, if not all joins of the plan were replicated probes. ``ms`` are the operator's own milliseconds, without
    those of its inputs, of all tasks together; ``bytes`` the size of its output in memory (after equal rows were merged); ``tasks`` their
    number, and ``skew`` the rows of the largest task over the mean, both if there was more than one. ``candidates`` are the rows that a
    multiway join verified. ``spared`` are the rows of ``observed`` that a semi-join reduction spared the operator, ``looked_up`` the rows
    of later relations that were read for it. They are None where Spark's own joins ran, which are not measured one by one.
    """

    op: str
    relation: str
    on: tuple[str, ...]
    estimated: float | None
    observed: int | None
    by: str | None = field(default=None, metadata=OMITTED)
    ms: float | None = field(default=None, metadata=OMITTED)
    bytes: int | None = field(default=None, metadata=OMITTED)
    tasks: int | None = field(default=None, metadata=OMITTED)
    skew: float | None = field(default=None, metadata=OMITTED)
    candidates: int | None = field(default=None, metadata=OMITTED)
    spared: int | None = field(default=None, metadata=OMITTED)
    looked_up: int | None = field(default=None, metadata=OMITTED)

    @property
    def q_error(self) -> float | None:
        """max(e, o) / min(e, o), both at least 1; None if either is unknown."""
        if self.estimated is None or self.observed is None:
            return None
        estimated, observed = max(self.estimated, 1.0), max(float(self.observed), 1.0)
        return max(estimated, observed) / min(estimated, observed)


@dataclass(frozen=True, slots=True)
class InHindsight(JsonRecord):
    """The cost of the plan that ran, the least cost of the retained plans, and the cost of the first plan of the delta source (None: there
    is none yet), all under the rows that the batch produced."""

    cost: float
    least: float
    first: float | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class StoppedPlan(JsonRecord):
    """A plan that was stopped in mid-batch, because an operator exceeded the limit on its rows; another plan then began the delta again.

    ``at`` is the number of that operator (None: it was one of another delta source, or of another block), ``expected`` the rows that it
    would have given, and ``operators`` what all of them gave until then.
    """

    plan: str
    at: int | None
    expected: float | None
    operators: tuple[OperatorRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta(JsonRecord):
    """A delta source's plan in one batch: the chosen plan and its cost, the runner-up, and the operators that ran.

    ``former`` are up to three earlier plans with their costs in this batch, the latest first, and then the first plan of all.
    ``regret`` is the cost of the plan less that of the plan before the last switch, negative if the switch saves: in ``hindsight``, 0 if
    the operators produced no rows, and an estimate before the batch if their rows are not known. ``hindsight`` compares the plan with
    others under the rows that its operators produced (None: there are none), and its cost includes that of the ``stopped`` plans.
    ``first``: the plan is the first one that was chosen from observed rows of the delta.
    """

    source: str
    plan: str
    cost: float | None = None
    runner_up: RunnerUp | None = None
    switched: bool = False
    reason: tuple[Moved, ...] = ()
    operators: tuple[OperatorRecord, ...] = ()
    former: tuple[RunnerUp, ...] = field(default=(), metadata=OMITTED)
    regret: float | None = field(default=None, metadata=OMITTED)
    hindsight: InHindsight | None = field(default=None, metadata=OMITTED)
    stopped: tuple[StoppedPlan, ...] = field(default=(), metadata=OMITTED)
    first: bool = field(default=False, metadata=OMITTED)

    @property
    def without_rows(self) -> bool:
        """Whether all operators are known to have produced no rows."""
        return bool(self.operators) and all(operator.observed == 0 for operator in self.operators)

    @property
    def others(self) -> dict[str, float | None]:
        """The known costs of the plans that were not chosen."""
        return {other.plan: other.cost for other in (*self.former, *((self.runner_up,) if self.runner_up else ()))}


@dataclass(frozen=True, slots=True)
class SubResults(JsonRecord):
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


@dataclass(frozen=True, slots=True)
class Milliseconds(JsonRecord):
    """The milliseconds of each phase of a batch.

    ``sink`` is the time in which the user's function or the output takes the answers; it is 0 in traces of earlier versions, which
    count it in ``commit``.
    """

    ingest: float = 0.0
    statistics: float = 0.0
    optimize: float = 0.0
    execute: float = 0.0
    sink: float = field(default=0.0, metadata=OPTIONAL)
    commit: float = 0.0

    PHASES: ClassVar = ("ingest", "statistics", "optimize", "execute", "sink", "commit")

    @property
    def total(self) -> float:
        """The sum of all phases."""
        return self.ingest + self.statistics + self.optimize + self.execute + self.sink + self.commit

    @property
    def longest(self) -> str:
        """The phase that took most of the time."""
        return max(self.PHASES, key=lambda phase: float(getattr(self, phase)))


@dataclass(frozen=True, slots=True)
class Lag(JsonRecord):
    """How far a run is behind its input (None: unknown).

    ``time`` is the newest time of the input that has been read, minus the frontier, in milliseconds. ``waiting`` is the number of
    micro-batches of a replay, or of files in live folders, that have not been started.
    """

    time: int | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class Called(JsonRecord):
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


@dataclass(frozen=True, slots=True)
class StoreVersions(JsonRecord):
    """The version of the static store that a batch is the first to use, and the previous one."""

    version: int
    was: int


@dataclass(frozen=True, slots=True)
class TraceRecord(JsonRecord):
    """One micro-batch of one query.

    ``time_range`` is the least and greatest time of its elements (None: no elements), ``frontier`` the time up to which answers
    are final (None: none yet), both in milliseconds; ``windows`` the rows of each window after the batch; ``epoch`` the epoch of
    the statistics; ``jobs`` the number of Spark jobs; ``fallback`` why the optimizer used a greedy order (None: it did not);
    ``cost_unit`` the unit of costs: ``s`` for seconds, empty for none (None: a trace of an earlier version); ``text`` the query, in the
    first record of a process; ``failed`` why the query, or some of the queries that share this plan, failed with this batch (None: none
    did); ``instances`` how many queries share this plan; ``sub_results`` their changes; ``lag`` how far the run is
    behind its input; ``recomputed`` the input rows of operators above the joins (None: all of these are row-wise); ``calls`` the calls of
    extension functions; ``static`` the version of the static store that this batch is the first to use, and the previous one (None:
    unchanged); ``notices`` sentences about the input (files that changed after they were read, the first rejected elements) and
    about errors that do not affect answers; ``answers`` the number of emitted answers (None: unknown); ``operators`` what ran above the
    joins, inputs first, and then the output of the answers (those of the joins are in ``deltas``).
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
    lag: Lag = field(default=Lag(), metadata=OPTIONAL)
    instances: int = field(default=1, metadata=OMITTED)
    sub_results: tuple[SubResults, ...] = field(default=(), metadata=OMITTED)
    recomputed: int | None = field(default=None, metadata=OMITTED)
    calls: tuple[Called, ...] = field(default=(), metadata=OMITTED)
    static: StoreVersions | None = field(default=None, metadata=OMITTED)
    notices: tuple[str, ...] = field(default=(), metadata=OMITTED)
    answers: int | None = field(default=None, metadata=OMITTED)
    operators: tuple[OperatorRecord, ...] = field(default=(), metadata=OMITTED)
    cost_unit: str | None = field(default=None, metadata=OMITTED)
    text: str | None = field(default=None, metadata=OMITTED)
    failed: str | None = field(default=None, metadata=OMITTED)

    def line(self) -> str:
        """The record as one line, with its newline."""
        return json.dumps(self.to_json(), ensure_ascii=False) + "\n"

    @property
    def stream_time(self) -> int | None:
        """The greatest time of the elements, or the frontier."""
        return self.time_range[1] if self.time_range else self.frontier

    @property
    def switches(self) -> tuple[Delta, ...]:
        """The delta sources whose plan changed in this batch."""
        return tuple(delta for delta in self.deltas if delta.switched)


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
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DataError(f"{place}: not a trace record that this version reads: {reason}") from error
