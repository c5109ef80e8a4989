"""The trace's account of a batch: counts, plans, and why they changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.udf_cache import CallStatistics
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.planner.row_expressions import written
from cqels_opt.planner.union_statistics import summands
from cqels_opt.query.algebra import Call
from cqels_opt.runtime.evaluate import EvaluateReport, FinishReport
from cqels_opt.runtime.micro_batch import MicroBatch
from cqels_opt.trace.records import Called, Lag, Milliseconds, TraceRecord
from cqels_opt.windows.frontier import Frontier


def trace_record(
    program: CompiledProgram,
    planner: QueryPlanner,
    batch: MicroBatch,
    observed: Mapping[str, Observed],
    frontier: Frontier,
    ms: Milliseconds,
    jobs: int,
    lag: Lag,
) -> TraceRecord:
    """The record of one program in one batch."""
    reports, done = batch.reports, batch.done
    finished, shares = done.finished.get(program.id, []), done.shares.get(program.id, [])
    streams = [seen for report in reports for iri, seen in report.streams.items() if iri in program.streams]
    times = [int(t) for s in streams if len(s.times) for t in (s.times[0], s.times[-1])]
    windows: dict[str, int] = {w.name: 0 for w in program.windows}
    for block in planner.blocks.values():
        for o in block.block.occurrences:
            for name, part in zip(summands(o), o.parts):
                held = block.statistics.windows[name]
                windows[part.window.name] = max(windows[part.window.name], int(held.card("old")) + int(held.card("delta")))
    return TraceRecord(
        batch=batch.number,
        query=program.id,
        time_range=(min(times), max(times)) if times else None,
        frontier=frontier.value if frontier.greatest is not None and frontier.value > -(1 << 60) else None,
        elements=sum(s.elements for s in streams),
        late=sum(s.late for s in streams),
        rejected=sum(r.counts[stream] for r in batch.rejected for stream in program.streams),
        windows=windows,
        deltas=tuple(d for name, block in planner.blocks.items() for d in block.deltas(observed.get(name))),
        epoch=planner.epoch,
        ms=ms,
        jobs=jobs,
        fallback=planner.fallback,
        sub_results=planner.view_changes,
        instances=1 if program.instances is None else program.instances.count,
        lag=lag,
        recomputed=None if program.row_wise else sum(report.read for report in finished),
        calls=_calls([*shares, *finished]),
        answers=sum(report.answers for report in finished),
    )


def _calls(reports: Sequence[EvaluateReport | FinishReport]) -> tuple[Called, ...]:
    """Outcomes of the calls of extension functions, in all tasks together."""
    found: dict[Call, CallStatistics] = {}
    for report in reports:
        for call, account in report.calls.items():
            found.setdefault(call, CallStatistics()).add(account)
    return tuple(
        Called(written(call), a.rows, a.distinct, a.looked_up, a.hits, round(1000 * a.seconds, 3)) for call, a in found.items()
    )
