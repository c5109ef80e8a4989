"""The trace record: what happened in one micro-batch of one query, and why (INTERFACE, "The trace"; DESIGN §10).

A record is one JSON object on one line. Its keys are stable: new ones may come, none goes. Reading is strict about the
keys that are here, each of its type, and takes no notice of keys that a newer version wrote.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cqels_opt.errors import DataError, InputError

T = TypeVar("T")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The cheapest plan that was not chosen."""

    plan: str
    cost: float | None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE."""
        return {"plan": self.plan, "cost": _finite(self.cost)}

    @classmethod
    def from_json(cls, value: object) -> RunnerUp:
        """The reverse of :meth:`to_json`; raises ValueError naming the key that is absent or of another type."""
        fields = _object(value)
        return cls(_get(fields, "plan", _text), _get(fields, "cost", _maybe(_number)))


@dataclass(frozen=True, slots=True)
class Moved:
    """A statistic that moved and so changed the order of plans; None is "not observed"."""

    statistic: str
    was: float | None
    now: float | None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE; ``now`` is its ``is``."""
        return {"statistic": self.statistic, "was": _finite(self.was), "is": _finite(self.now)}

    @classmethod
    def from_json(cls, value: object) -> Moved:
        """The reverse of :meth:`to_json`."""
        fields = _object(value)
        return cls(_get(fields, "statistic", _text), _get(fields, "was", _maybe(_number)), _get(fields, "is", _maybe(_number)))


@dataclass(frozen=True, slots=True)
class Operator:
    """A physical operator that ran: the relation it probed, on which variables, and the rows it gave (None: not known).

    ``by`` says what did it where not all joins of the plan were replicated probes.
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
            "estimated": _finite(self.estimated),
            "observed": self.observed,
            **({"by": self.by} if self.by is not None else {}),
        }

    @classmethod
    def from_json(cls, value: object) -> Operator:
        """The reverse of :meth:`to_json`."""
        fields = _object(value)
        return cls(
            _get(fields, "op", _text),
            _get(fields, "relation", _text),
            _get(fields, "on", _list_of(_text)),
            _get(fields, "estimated", _maybe(_number)),
            _get(fields, "observed", _maybe(_whole)),
            _text(fields["by"]) if "by" in fields else None,
        )

    @property
    def q_error(self) -> float | None:
        """max(e, o) / min(e, o), both at least 1; None where one of them is not known."""
        if self.estimated is None or self.observed is None:
            return None
        estimated, observed = max(self.estimated, 1.0), max(float(self.observed), 1.0)
        return max(estimated, observed) / min(estimated, observed)


@dataclass(frozen=True, slots=True)
class Delta:
    """A delta source's plan in one batch: what was chosen at which cost, over which runner-up, and what ran."""

    source: str
    plan: str
    cost: float | None = None
    runner_up: RunnerUp | None = None
    switched: bool = False
    reason: tuple[Moved, ...] = ()
    operators: tuple[Operator, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE."""
        return {
            "source": self.source,
            "plan": self.plan,
            "cost": _finite(self.cost),
            "runner_up": self.runner_up.to_json() if self.runner_up else None,
            "switched": self.switched,
            "reason": [moved.to_json() for moved in self.reason],
            "operators": [operator.to_json() for operator in self.operators],
        }

    @classmethod
    def from_json(cls, value: object) -> Delta:
        """The reverse of :meth:`to_json`."""
        fields = _object(value)
        return cls(
            _get(fields, "source", _text),
            _get(fields, "plan", _text),
            _get(fields, "cost", _maybe(_number)),
            _get(fields, "runner_up", _maybe(RunnerUp.from_json)),
            _get(fields, "switched", _flag),
            _get(fields, "reason", _list_of(Moved.from_json)),
            _get(fields, "operators", _list_of(Operator.from_json)),
        )


@dataclass(frozen=True, slots=True)
class SubResults:
    """A block joins other static patterns beforehand from this batch on; or a sub-result could not be made, and why.

    ``was`` and ``now`` name its static relations. ``cost`` is that of a batch under the design that is left, ``price`` what it would
    have been under the new one, ``saved`` what the new one would have saved since the other was taken; all in the cost model's unit.
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
            "cost": _finite(self.cost),
            "price": _finite(self.price),
            "saved": _finite(self.saved),
            "failed": self.failed,
        }

    @classmethod
    def from_json(cls, value: object) -> SubResults:
        """The reverse of :meth:`to_json`."""
        fields = _object(value)
        return cls(
            _get(fields, "block", _text),
            _get(fields, "was", _list_of(_text)),
            _get(fields, "is", _list_of(_text)),
            _get(fields, "cost", _maybe(_number)),
            _get(fields, "price", _maybe(_number)),
            _get(fields, "saved", _maybe(_number)),
            _get(fields, "failed", _maybe(_text)),
        )


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """Where a batch's time went."""

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
        """The reverse of :meth:`to_json`."""
        fields = _object(value)
        return cls(*(_get(fields, phase, _number) for phase in cls.PHASES))

    @property
    def total(self) -> float:
        """All phases together."""
        return self.ingest + self.statistics + self.optimize + self.execute + self.commit


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a run is behind its input (None: not known).

    ``time`` is the newest time of the input, as far as it has been looked at, minus the frontier, in milliseconds. ``waiting`` are the
    micro-batches of a replay, or the files of live folders, that have not been begun.
    """

    time: int | None = None
    waiting: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of docs/trace.md."""
        return {"time": self.time, "waiting": self.waiting}

    @classmethod
    def from_json(cls, value: object) -> Lag:
        """The reverse of :meth:`to_json`."""
        fields = _object(value)
        return cls(_get(fields, "time", _maybe(_whole)), _get(fields, "waiting", _maybe(_whole)))


@dataclass(frozen=True, slots=True)
class Called:
    """What became of a call of an extension function: the rows it was for, their distinct arguments, how many of these were looked up
    among results that are kept, how many were there, and the milliseconds that the others took."""

    call: str
    rows: int
    distinct: int
    looked_up: int
    hits: int
    ms: float

    def to_json(self) -> dict[str, Any]:
        """The JSON object of docs/trace.md."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Called:
        """The reverse of :meth:`to_json`."""
        fields = _object(value)
        rows, distinct, looked_up, hits = (_get(fields, name, _whole) for name in ("rows", "distinct", "looked_up", "hits"))
        return cls(_get(fields, "call", _text), rows, distinct, looked_up, hits, _get(fields, "ms", _number))


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One micro-batch of one query.

    ``time_range`` is the least and greatest time of its elements (None: no elements), ``frontier`` the time up to which
    answers are final (None: not yet any), both in milliseconds; ``windows`` the rows of each window after the batch;
    ``epoch`` the epoch of the statistics; ``jobs`` the Spark jobs; ``fallback`` why the optimizer fell back to a greedy
    order (None: it did not); ``instances`` how many queries share this plan; ``sub_results`` what changed about these;
    ``lag`` how far the run is behind its input;
    ``recomputed`` the rows that operators above the joins were given (None: all of these work row by row);
    ``calls`` what became of calls of extension functions.
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

    def to_json(self) -> dict[str, Any]:
        """The JSON object of INTERFACE; ``instances``, ``sub_results``, ``recomputed``, ``calls`` only where there is something to say."""
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
        return record

    def line(self) -> str:
        """The record as one line, newline included."""
        return json.dumps(self.to_json(), ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, value: object) -> TraceRecord:
        """The reverse of :meth:`to_json`; raises ValueError naming the key that is absent or of another type."""
        fields = _object(value)
        return cls(
            batch=_get(fields, "batch", _whole),
            query=_get(fields, "query", _text),
            time_range=_get(fields, "time_range", _maybe(_range)),
            frontier=_get(fields, "frontier", _maybe(_whole)),
            elements=_get(fields, "elements", _whole),
            late=_get(fields, "late", _whole),
            rejected=_get(fields, "rejected", _whole),
            windows=_get(fields, "windows", _rows),
            deltas=_get(fields, "deltas", _list_of(Delta.from_json)),
            epoch=_get(fields, "epoch", _whole),
            ms=_get(fields, "ms", Milliseconds.from_json),
            jobs=_get(fields, "jobs", _whole),
            fallback=_get(fields, "fallback", _maybe(_text)),
            instances=_get(fields, "instances", _whole) if "instances" in fields else 1,
            sub_results=_get(fields, "sub_results", _list_of(SubResults.from_json)) if "sub_results" in fields else (),
            lag=_get(fields, "lag", Lag.from_json) if "lag" in fields else Lag(),
            recomputed=_get(fields, "recomputed", _whole) if "recomputed" in fields else None,
            calls=_get(fields, "calls", _list_of(Called.from_json)) if "calls" in fields else (),
        )

    @property
    def switches(self) -> tuple[Delta, ...]:
        """The delta sources that took another plan in this batch."""
        return tuple(delta for delta in self.deltas if delta.switched)


def read_trace(path: Path) -> Iterator[TraceRecord]:
    """The records of a trace file in their order, one at a time.

    Raises:
        InputError: the file cannot be read.
        DataError: a line is not a trace record or is cut off; the message begins with ``file:line:``.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _record(line, f"{path}:{number}")
    except OSError as error:
        raise InputError(f"{path}: cannot read the trace: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a trace file: not UTF-8 text") from error


def _record(line: str, place: str) -> TraceRecord:
    try:
        return TraceRecord.from_json(json.loads(line, parse_constant=_no_number))
    except json.JSONDecodeError as error:
        if not line.endswith("\n"):
            raise DataError(f"{place}: the last trace record is cut off") from error
        raise DataError(f"{place}: not a trace record: not JSON ({error.msg} at column {error.colno})") from error
    except ValueError as error:
        raise DataError(f"{place}: not a trace record: {error}") from error


# ------------------------------------------------------------------ typed reading of JSON: each raises ValueError
def _get(fields: Json, key: str, read: Callable[[object], T]) -> T:
    if key not in fields:
        raise ValueError(f"the key {key!r} is absent")
    try:
        return read(fields[key])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no JSON number")


def _finite(number: float | None) -> float | None:
    """JSON has neither infinity nor NaN: both are "not known"."""
    return number if number is not None and math.isfinite(number) else None


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise ValueError(f"an object is expected, not {json.dumps(value)[:40]}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"text is expected, not {json.dumps(value)[:40]}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, not {json.dumps(value)[:40]}")
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a whole number is expected, not {json.dumps(value)[:40]}")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"a number is expected, not {json.dumps(value)[:40]}")
    return float(value)


def _range(value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"two times are expected, not {json.dumps(value)[:40]}")
    return _whole(value[0]), _whole(value[1])


def _rows(value: object) -> dict[str, int]:
    windows = _object(value)
    return {name: _get(windows, name, _whole) for name in windows}


def _maybe(read: Callable[[object], T]) -> Callable[[object], T | None]:
    return lambda value: None if value is None else read(value)


def _list_of(read: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    def read_all(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ValueError(f"a list is expected, not {json.dumps(value)[:40]}")
        return tuple(read(entry) for entry in value)

    return read_all
