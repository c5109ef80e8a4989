"""Traces for tests: long ones, and texts that try to become markup."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.trace.records import Delta, Milliseconds, Moved, OperatorRecord, RunnerUp, TraceRecord

RECORD = TraceRecord(0, "q", (1000, 2000), 1999, 10, windows={"w": 3}, deltas=(Delta("w", "w » a[?x]", 1.0),))
A, B = "w » a[?x] » b[?y]", "w » b[?y] » a[?x]"
EVIL = "</script><!--<script>alert('x')//\u2028&amp;"


def flapping(batches: int, every: int = 2) -> list[TraceRecord]:
    """A plan that changes every so many batches, and one batch that is slow."""
    found = []
    for number in range(batches):
        plan = (A, B)[number // every % 2]
        switched = number > 0 and number % every == 0
        reason = (Moved("cardinality(w)", float(number), number + 1.0),) if switched else ()
        operators = (OperatorRecord("scan", "w", (), 1.0, 1), OperatorRecord("probe", "a", ("x",), 4.0, number))
        delta = Delta("w", plan, 1.0, RunnerUp((B, A)[number // every % 2], 2.0), switched, reason, operators)
        ms = Milliseconds(execute=9000.0 if number == 777 else 10.0)
        found.append(replace(RECORD, batch=number, time_range=(number, number), deltas=(delta,), ms=ms))
    return found
