"""The executors' second stage: evaluates the chosen plans over the deltas, stores the rows that later steps need, and emits answers.

:func:`evaluate` processes a share of each delta and writes result slots; :func:`finish` combines all shares at the step's instants.
A small batch does both in one task. A large batch has a task per share, and then one per part of the answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from cqels_opt.errors import LimitError
from cqels_opt.operators.accumulators import added_up, amount_names
from cqels_opt.operators.algebra.group import GroupNode
from cqels_opt.operators.algebra.operator import changing, work_of
from cqels_opt.operators.algebra.operator import evaluate as evaluate_tree
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.answer_files import write_arrow, write_parquet
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.evaluation_step import NO_INSTANT, EvaluationStep
from cqels_opt.operators.graph_output import lines
from cqels_opt.operators.incremental_evaluation import accumulate, in_chunks
from cqels_opt.operators.instances import names_of
from cqels_opt.operators.instant_ranges import instant_ranges
from cqels_opt.operators.joint_lines import QueryAnswers
from cqels_opt.operators.operator_work import TreeWork
from cqels_opt.operators.row_limit import RowLimitError
from cqels_opt.operators.rows import Ints, Rows, chunks, concat, empty
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter, share
from cqels_opt.operators.stream_operators import answers, stream_operator
from cqels_opt.operators.stream_output import Answers, by_instant
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.templates import INSTANCE
from cqels_opt.runtime.backfill import backfilled_rows, without_results
from cqels_opt.runtime.bounded_work import bounded
from cqels_opt.runtime.evaluate_task import EvaluateReport, EvaluateTask, FinishReport, ranked
from cqels_opt.runtime.joint_answers import JointAnswers
from cqels_opt.runtime.query_network import write_elements
from cqels_opt.runtime.static_refresh import answers_before, at_first, only
from cqels_opt.state import worker_cache
from cqels_opt.state.materialized_answers import MaterializedAnswers, advanced, kept_keys
from cqels_opt.state.ranked_rows import ended
from cqels_opt.state.result_store import BlockRows, ResultFiles, ResultRun
from cqels_opt.state.spilled_results import apart
from cqels_opt.stats.frequencies import distinct_values
from cqels_opt.storage import checksum
from cqels_opt.windows.binding_slots import SlotFile

Fresh: TypeAlias = dict[str, list[Rows]]
"""The rows that a step adds, by block: the first chunk in memory, others mapped."""


@bounded(EvaluateReport)
def evaluate(task: EvaluateTask, name: str, part: int, parts: int, fresh: Fresh | None) -> EvaluateReport:
    """Evaluates one share of the deltas. With ``fresh`` the rows go there (one task does all), else to files for :func:`finish`.

    Chunks after the first go to files in any case, which are mapped.
    """
    program, step = task.program, task.step
    report, terms = EvaluateReport(worker=str(os.getppid())), task.terms()
    if task.stores_last_answers:
        return report
    if task.refused:
        raise LimitError(task.refused)
    for block in program.blocks:
        run = DeltaJoin(block, program.store, step, terms, part, parts)
        if task.backfill is not None:
            rows = backfilled_rows(program, step, task.backfill, run, task.results(block.name))
            keep(task, name, block.name, rows, report, fresh)
        else:
            try:
                for number, rows in enumerate(chunks(run.rows())):
                    keep(task, f"{name}r{number}", block.name, rows, report, fresh, not number)
            except RowLimitError:
                report.stopped = run.stopped
        report.observed[block.name] = run.observed
        report.probed += sum(sum(counts) for counts in run.observed.operators.values())
        if report.stopped is not None:
            break
    report.calls = terms.calls.accounts
    return report


def keep(
    task: EvaluateTask, name: str, block: str, rows: Rows, report: EvaluateReport, fresh: Fresh | None, first: bool = True
) -> None:
    """Stores the rows that the step adds to a block: for :func:`finish`, and for later steps."""
    program, step, files = task.program, task.step, task.results(block)
    report.rows += len(rows)
    if fresh is not None and not fresh.get(block):
        fresh[block] = [rows]
    elif fresh is not None or not task.quiet:
        written = replace(files, indexed=()).write(step, rows, f"fresh-{name}", in_memory=False)
        report.fresh += written
        if fresh is not None:
            fresh[block] += [ResultRun.read(step.path / file.path).rows for file in written]
    if not ranked(program):
        report.kept += files.write(step, rows.take(rows.end > step.floor), f"result-{name}", in_memory=first)
    elif fresh is None and task.quiet:
        report.kept += files.write(step, rows, f"result-{name}")


@bounded(FinishReport)
def finish(
    task: EvaluateTask, name: str, fresh: Fresh | Sequence[SlotFile], part: int, parts: int, joint: JointAnswers | None = None
) -> FinishReport:
    """Emits the answers of the step at its instants that belong to this part; ``joint`` holds them for a file of several queries."""
    if task.stores_last_answers:
        return _store_last_answers(task, name)
    is_backfill = task.backfill is not None
    if is_backfill:
        task = replace(task, step=without_results(task.step))
    program, step = task.program, task.step
    report, rows_of = FinishReport(), {}
    for block in program.blocks:
        files = task.results(block.name)
        new = fresh.get(block.name, []) if isinstance(fresh, Mapping) else _mapped(step, fresh, files)
        runs = files.runs(step)
        if ranked(program):
            held = [run.after(int(step.instants[0])) for _, run in runs]
            rows = ended(step, concat([empty(block.output), *new, *held]))
            new, runs = [rows], []
            report.replaced += [f.path for f in step.select("result", shape=files.label)]
            report.kept += files.write(step, rows.take(rows.end > step.floor), f"result-{name}")
        elif part == 0:
            _merge(files, step, name, report)
        rows_of[block.name] = BlockRows(block.output, step.instants, new, runs)
    if task.quiet or (is_backfill and program.row_wise):
        return report
    terms, mine = task.terms(), _Part(task, name, part, parts, report)
    total, work = 0, work_of(program.tree)
    waiting: list[tuple[QueryAnswers, FinishReport]] = []
    with work.measured():
        for number, found in enumerate(_answers(mine, rows_of, terms, work)):
            total += (emitted := found.total)
            if not len(found) or is_backfill:
                continue
            into = report if not number else FinishReport()
            report.others += [into] if number else []
            into.answers = emitted
            if _too_many(task, total):
                break
            if joint is not None and task.named and joint.takes(found):
                waiting.append((QueryAnswers(found, terms, _query_of(task, found)), into))
            elif joint is not None and task.feeds is None and joint.keeps(found):
                into.lines, time, length = next(lines(found, terms, _query_of(task, found)))
                into.times = by_instant(time, length)
            else:
                _put(task, found, terms, f"{mine.path}c{number}" if number else mine.path, into)
    if joint is not None:
        joint.hold(waiting)
    work.rest.rows = total
    report.work = [*work.operators.values(), work.rest]
    report.read, report.calls = sum(rows.read for rows in rows_of.values()), terms.calls.accounts
    return report


def _store_last_answers(task: EvaluateTask, name: str) -> FinishReport:
    """Stores the answers at the instant of the step, with which the next instant is compared."""
    program, step, terms = task.program, task.step, task.terms()
    rows_of = {}
    for block in program.blocks:
        runs = task.results(block.name).runs(step)
        rows_of[block.name] = BlockRows(block.output, step.instants, (), runs)
    scope = Scope(rows_of, program.store, terms, step.instants, 1, task.program.pushdown.schema)
    rows = at_first(only(evaluate_tree(program.tree, scope), program))
    return FinishReport(
        kept=answers_before(program).replace(step, rows, terms, f"left-{name}", worker_cache.store(program.store))[0]
    )


def _merge(
    files: ResultFiles, step: EvaluationStep, name: str, report: FinishReport, fold: Callable[[Rows], Rows] = lambda r: r
) -> None:
    written, replaced = files.merged(step, name, fold)
    report.kept += written
    report.replaced += replaced


def _mapped(step: EvaluationStep, fresh: Sequence[SlotFile], files: ResultFiles) -> list[Rows]:
    return [ResultRun.read(step.path / file.path).rows for file in fresh if file.shape == files.label]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the answers of a step, and the report that it adds to; ``name`` distinguishes its files."""

    task: EvaluateTask
    name: str
    part: int
    parts: int
    report: FinishReport

    @property
    def path(self) -> str:
        """The path of its answers, without a suffix."""
        return f"answers/{self.task.step.batch:08d}-{self.task.program.id}-{self.name}"


def _answers(mine: _Part, rows_of: Mapping[str, BlockRows], terms: TermTable, work: TreeWork) -> Iterator[Answers]:
    """The answers of a part of a step, in pieces."""
    program, step = mine.task.program, mine.task.step
    low = 1 if step.instants[0] == NO_INSTANT else 0
    scope = Scope(rows_of, program.store, terms, step.instants, low, program.pushdown.schema, work=work)
    mine.report.replaced += answers_before(program).paths(step)
    if program.row_wise:
        yield from _answers_by_row(mine, scope)
        return
    keys = share(program.pushdown.spread, mine.part, mine.parts)
    _accumulate(mine, scope, keys)
    yield answers(_grouped(mine, scope, keys), program.columns, program.operator, step.instants)


def _answers_by_row(mine: _Part, scope: Scope) -> Iterator[Answers]:
    """The answers of a program whose operators take each row by itself: by ranges of instants, and in chunks of rows."""
    program, step, parts = mine.task.program, mine.task.step, mine.parts
    whole = stream_operator(program.operator).whole
    earlier, run = at_first(answers_before(program).held(step, EVERY)), evaluate_tree if whole else changing
    blocks = [rows for block in scope.blocks.values() for rows in block.parts(whole or scope.low > 0)]
    ranges = instant_ranges(blocks, step.instants, whole, mine.part, parts)
    for places in ranges:
        some = in_chunks(program.tree, scope, run=run, places=places if len(ranges) > 1 or parts > 1 else None)
        found = chain(some, [earlier] if places.low == 1 else [])
        for rows in apart(found, program.columns, step.path / mine.path):
            yield answers(rows, program.columns, program.operator, step.instants, places)


def _accumulate(mine: _Part, scope: Scope, keys: KeyFilter) -> None:
    """Adds the new rows to the groups of this part, and stores what changes them."""
    step, sums, name, report = mine.task.step, mine.task.sums(), mine.name, mine.report
    held = {node: [run for _, run in files.runs(step)] for node, files in sums.items()}
    for groups in accumulate(mine.task.program.tree, scope, held, keys):
        files, amounts = sums[groups.node], amount_names(groups.node)
        difference = groups.difference()
        report.kept += files.write(step, difference, f"sums-{name}")
        every = partial(_keys_of, groups.node, held[groups.node])
        found = [difference.columns[key] for key in groups.node.keys if key in difference.columns]
        written, replaced = kept_keys(step, files.label, f"keys-{name}", found, scope.terms, every)
        report.kept += written
        report.replaced += replaced if mine.part == 0 else []
        if mine.part == 0:
            _merge(files, step, name, report, partial(added_up, keys=groups.node.keys, amounts=amounts))


def _grouped(mine: _Part, scope: Scope, keys: KeyFilter) -> Rows:
    """The rows of the groups of a part: those that change, or all that hold if the stream operator needs them."""
    program, step, report = mine.task.program, mine.task.step, mine.report
    if not stream_operator(program.operator).whole:
        earlier = at_first(answers_before(program).held(step, EVERY))
        return concat([keys.within(changing(program.tree, scope, keys)), earlier])
    if not program.pushdown.materializes:
        return evaluate_tree(program.tree, scope)
    materialized = MaterializedAnswers(ResultFiles(f"{program.id}/answers", program.columns, ()))
    new = keys.within(changing(program.tree, scope, keys))
    rows = advanced(materialized.held(step, keys), new, program.columns, scope.high)
    if len(new) or mine.parts > 1:
        written, replaced = materialized.replace(step, rows.take(rows.end == scope.high), scope.terms, f"standing-{mine.name}")
        report.kept += written
        report.replaced += replaced
    return rows


def _too_many(task: EvaluateTask, answers: int) -> bool:
    """Whether the query has more answers than allowed, so that none are emitted. For queries of a template that is not known here."""
    return task.most is not None and task.program.instances is None and answers > task.most


def _keys_of(node: GroupNode, held: Sequence[ResultRun]) -> Ints:
    """The ids in the keys of stored groups."""
    columns = [run.rows.columns[key] for run in held for key in node.keys]
    return distinct_values(np.concatenate([np.empty(0, np.int64), *columns]))


def _query_of(task: EvaluateTask, found: Answers) -> Any:
    """The name of the query, or of each answer's query where several share the program; None if answers have no name."""
    if task.program.instances:
        return names_of(task.program.instances.names).of(found.columns.pop(INSTANCE.name))
    return task.program.id if task.named else None


def _put(task: EvaluateTask, found: Answers, terms: TermTable, path: str, report: FinishReport) -> None:
    folder, program = task.step.path, task.program
    if task.feeds is not None:
        fed = write_elements(folder / f"{path}.fed.parquet", found, terms, task.feeds)
        report.fed = str(fed.relative_to(folder))
    named = _query_of(task, found)
    queries = named if program.instances else None
    if task.format == "arrow":
        report.path = f"{path}.arrow"
        write_arrow(folder / report.path, found, terms, queries, program.types, report.untyped)
        return
    if task.format == "parquet":
        made = write_parquet(folder / f"{path}.parquet", found, terms, queries, program.types, report.untyped)
        report.path = str(made.relative_to(folder))
        return
    stretches = [report.times]

    def write(file: Any) -> None:
        for data, time, length in lines(found, terms, named):
            file.write(data)
            stretches.append(by_instant(time, length))

    made = checksum.write_named(folder / f"{path}.jsonl", write)
    report.times = np.concatenate(stretches)
    report.path = str(made.relative_to(folder))
