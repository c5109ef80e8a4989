"""The trace's account of a batch: counts, plans, and why they changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.operator_work import OperatorWork, added
from cqels_opt.operators.udf_cache import CallStatistics
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.delta_plan import measured
from cqels_opt.planner.filter_report import with_conditions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.planner.row_expressions import written
from cqels_opt.planner.union_statistics import summands
from cqels_opt.query.algebra import Call
from cqels_opt.runtime.evaluate_task import EvaluateReport, FinishReport
from cqels_opt.runtime.micro_batch import MicroBatch
from cqels_opt.trace.records import Called, Delta, Lag, Milliseconds, OperatorRecord, TraceRecord
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
    rejected = [batch.refused, *(spool.counts for spool in batch.rejected)]
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
        rejected=sum(found.get(stream, 0) for found in rejected for stream in program.streams),
        windows=windows,
        deltas=tuple(named_filters(d, block) for name, block in planner.blocks.items() for d in block.deltas(observed.get(name))),
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
        operators=_above_joins(planner, shares, finished),
    )


def named_filters(delta: Delta, block: BlockPlanner) -> Delta:
    """The entry of a delta source, whose reason has the conditions of filters."""
    if not delta.reason:
        return delta
    return replace(delta, reason=tuple(replace(m, statistic=with_conditions(m.statistic, block)) for m in delta.reason))


def _above_joins(
    planner: QueryPlanner, shares: Sequence[EvaluateReport], finished: Sequence[FinishReport]
) -> tuple[OperatorRecord, ...]:
    """What ran besides the joins: the rows of the joins are stored, the operators above them run, and answers are written."""
    if not shares and not finished:
        return ()
    stored = list[OperatorWork]()
    for report in shares:
        joins = sum(work.seconds for seen in report.observed.values() for works in seen.work.values() for work in works)
        stored = added(stored, [OperatorWork(max(0.0, report.seconds - joins), report.rows, tasks=1)])
    works = list[OperatorWork]()
    for finish in finished:
        works = added(works, finish.work) if finish.work else works
    steps = planner.above
    ran = zip(steps, [*(stored or [OperatorWork()]), *(works or [OperatorWork()] * (len(steps) - 1))], strict=True)
    return tuple(
        OperatorRecord(op, relation, on, None, work.rows, None, *measured(work)) for (op, relation, on), work in ran if work.tasks
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
