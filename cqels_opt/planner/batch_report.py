"""EXPLAIN ANALYZE of a batch: its elements and phases, and what ran besides the joins."""

from __future__ import annotations

from typing import Any

from cqels_opt.plans.explain_text import table
from cqels_opt.plans.figures import counted, milliseconds
from cqels_opt.trace.figures import clock
from cqels_opt.trace.records import Delta, Milliseconds, TraceRecord


def described(record: TraceRecord) -> dict[str, Any]:
    """The batch, for JSON: the keys are those of the trace record."""
    found = record.to_json()
    keys = ("batch", "query", "time_range", "frontier", "elements", "windows", "answers", "jobs", "ms", "operators")
    return {key: found[key] for key in keys if key in found}


def head(record: TraceRecord, by_spark: bool = False) -> str:
    """What the batch was, and how long its phases took. ``by_spark``: the plans that Spark ran follow."""
    elements = (
        f": {counted(record.elements, 'element')}" if record.elements or not by_spark else ""
    )  # not counted in Spark's own plan
    answers = "" if record.answers is None else f", {counted(record.answers, 'answer')}"
    times = "" if record.time_range is None else f" from {clock(record.time_range[0])} to {clock(record.time_range[1])} UTC"
    jobs = "" if not record.jobs else f"; {counted(record.jobs, 'Spark job')}"
    lines = [
        f"query {record.query}, batch {record.batch}{elements}{times}{answers}",
        f"  took {milliseconds(record.ms.total)} ms ({_phases(record.ms)}){jobs}",
    ]
    if record.windows:
        lines.append("  rows in windows: " + ", ".join(f"{name} {rows:,}" for name, rows in record.windows.items()))
    if not by_spark and unmeasured(record.deltas):
        lines.append("  Spark ran the joins: it fuses operators, so milliseconds and bytes are not known for each")
    failed = () if record.failed is None else (f"failed: {record.failed}",)
    fallback = () if record.fallback is None else (record.fallback,)
    return "\n".join([*lines, *(f"  {notice}" for notice in (*failed, *fallback, *record.notices))])


def unmeasured(deltas: tuple[Delta, ...]) -> bool:
    """Whether joins ran that were not measured."""
    return any(step.observed is not None and step.ms is None for delta in deltas for step in delta.operators)


def above(record: TraceRecord) -> str:
    """A table of what ran besides the joins; empty if nothing did."""
    if not record.operators:
        return ""
    lines = table([step.to_json() for step in record.operators])
    return "\n".join(["besides the joins, inputs first", *(f"  {line}" for line in lines)])


def _phases(ms: Milliseconds) -> str:
    return ", ".join(f"{phase} {milliseconds(getattr(ms, phase))}" for phase in ms.PHASES if getattr(ms, phase))
