"""Compares the q-errors of the chosen plans' operators under each kind of estimate.

An operator counts once per batch, with its estimated rows when the plan was chosen and its observed rows. The scan of a delta is
omitted, because its rows are counted before the run. Operators with at most one estimated and at most one observed row have a q-error
of one by definition; ``with rows`` omits those as well. The first batches are also shown separately, because they have no
feedback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import Prepared, check_same, joins_of, prepare, small_world
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.social import DRIFT, STEADY, STREAM, Phase
from cqels_opt.planner.planner_options import Estimates, PlannerOptions
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.batch_size import BatchSize

SEED = 1
WORKLOADS: Mapping[str, Sequence[Phase]] = {"steady": STEADY, "drift": DRIFT}
ASKED = ("q1", "q2", "q3", "q4", "q1-prime", "q2-prime", "q3-prime", "q4-prime")
KINDS: Mapping[str, Estimates] = {
    "bindings": "bindings",
    "pairwise": "pairwise",
    "pairwise + join sampling": "sampling",
    "pairwise + feedback": "feedback",
    "all": "all",
}
AUTHOR = "Author 3"
"""The person in Q1' to Q4': one of the most prolific authors."""
FIRST = 2
"""The number of batches that count as first ones."""


def study(quick: bool) -> dict[str, Any]:
    """All queries over all workloads under every kind of estimate."""
    elements, batch = _size(quick)
    results: list[dict[str, Any]] = []
    for workload, query in report_queries(quick):
        runs = [query.run(name, PlannerOptions(estimates=kind, sampling_seconds=0.0)) for name, kind in KINDS.items()]
        check_same(runs)
        results += [
            {"workload": workload, "query": query.name, "estimates": run.name, "errors": errors(run.records)} for run in runs
        ]
    by_query = [{**r, "errors": summarised([q for _, q, rows in r["errors"] if rows])} for r in results]
    return {"seed": SEED, "elements": elements, "batch": batch, "summary": _summary(results), "results": by_query}


def report_queries(quick: bool) -> Iterator[tuple[str, Prepared]]:
    """The queries of the report over all workloads, with the name of the workload. Their files exist until the next one is asked for."""
    elements, batch = _size(quick)
    for workload, phases in WORKLOADS.items():
        with scratch_folder() as folder:
            store, stream = small_world(folder, SEED, 30 if quick else 100, elements, phases, quick)
            for name in ASKED:
                text = (QUERIES / f"{name}.rq").read_text(encoding="utf-8").replace("$Author Name$", AUTHOR)
                yield workload, prepare(name, text, store, {STREAM: stream}, folder / name, BatchSize(count=batch))


def _size(quick: bool) -> tuple[int, int]:
    """Elements of a stream, and per micro-batch."""
    return (2_000, 250) if quick else (6_000, 500)


def errors(records: Iterable[TraceRecord]) -> list[tuple[int, float, bool]]:
    """For every operator except the scans of deltas: its batch, its q-error, and whether it had more than one row."""
    return [
        (number, operator.q_error, max(operator.estimated or 0.0, operator.observed or 0) > 1)
        for number, record in enumerate(records)
        for delta in record.deltas
        for operator in joins_of(delta)
        if operator.q_error is not None
    ]


def summarised(found: Sequence[float]) -> dict[str, float]:
    """Their number, median, 95th percentile and maximum."""
    if not found:
        return {"operators": 0}
    return {
        "operators": len(found),
        "median": float(np.median(found)),
        "95th percentile": float(np.quantile(found, 0.95)),
        "greatest": max(found),
    }


def _summary(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Over all queries, by workload and kind of estimate."""
    summary = []
    for workload in (*WORKLOADS, "both"):
        for kind in KINDS:
            selected = [r["errors"] for r in results if r["estimates"] == kind and workload in (r["workload"], "both")]
            together = [error for found in selected for error in found]
            parts = {
                "all": [q for _, q, _ in together],
                "with rows": [q for _, q, rows in together if rows],
                "first batches, with rows": [q for number, q, rows in together if rows and number < FIRST],
            }
            summary.append({"workload": workload, "estimates": kind, **{part: summarised(qs) for part, qs in parts.items()}})
    return summary


def show(found: Mapping[str, Any]) -> None:
    """Prints tables over all queries, then query by query."""
    screen = console()
    title = f"q-errors of the chosen plans' operators: median, 95th percentile, greatest ({found['elements']:,} elements a run)"
    parts = ("all", "with rows", "first batches, with rows")
    shown = table("stream", "estimates", *parts, title=title)
    for line in found["summary"]:
        shown.add_row(line["workload"], line["estimates"], *(_cell(line[part]) for part in parts))
    screen.print(shown)
    shown = table("stream", "query", *KINDS, title="The same by query, operators with rows")
    for workload in WORKLOADS:
        for query_name in ASKED:
            selected = {
                r["estimates"]: r["errors"] for r in found["results"] if (r["workload"], r["query"]) == (workload, query_name)
            }
            shown.add_row(workload, query_name, *(_cell(selected[kind]) for kind in KINDS))
    screen.print(shown)


def _cell(summary: Mapping[str, float]) -> str:
    if not summary["operators"]:
        return "-"
    return " ".join(f"{summary[part]:,.2f}" for part in ("median", "95th percentile", "greatest"))
