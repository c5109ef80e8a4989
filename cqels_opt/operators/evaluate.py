"""The executors' second stage: run the chosen plans on the deltas, keep what later steps need, and put out answers.

:func:`evaluate` does a share of each delta and writes result slots; :func:`finish` puts all shares together at the step's instants.
A small batch does both in one task; a large one has a task a share, and then one a part of the answers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from cqels_opt.operators import cache
from cqels_opt.operators.block import BlockStep, Observed
from cqels_opt.operators.join import RANK
from cqels_opt.operators.output import Answers, answers, column_names, columns_of, json_lines
from cqels_opt.operators.program import Program
from cqels_opt.operators.rows import Rows, concat, empty
from cqels_opt.operators.step import NOWHEN, Step
from cqels_opt.operators.terms import TermTable
from cqels_opt.operators.tree import Scope, to_places
from cqels_opt.operators.tree import evaluate as evaluate_tree
from cqels_opt.windows.columns import read_columns, write_columns, write_table
from cqels_opt.windows.intervals import FOREVER
from cqels_opt.windows.slots import SlotFile, rank_elements

Format = Literal["jsonl", "arrow", "parquet"]


@dataclass(frozen=True, slots=True)
class EvaluateTask:
    """A program and its step."""

    program: Program
    step: Step
    format: Format

    @property
    def quiet(self) -> bool:
        """Whether no instant is looked at, so that nothing can be put out."""
        return len(self.step.instants) < 2

    def terms(self) -> TermTable:
        """A term table for the step."""
        return cache.term_table(self.program.store, self.program.seed, self.step)


@dataclass(slots=True)
class EvaluateReport:
    """What a share reports: counts, the result slots that later steps need, and the files of fresh rows that finish() reads."""

    observed: dict[str, Observed] = field(default_factory=dict)
    kept: list[SlotFile] = field(default_factory=list)
    fresh: list[SlotFile] = field(default_factory=list)
    rows: int = 0
    probed: int = 0  # rows that the operators put out
    worker: str = ""  # the executor's Python that did it


@dataclass(slots=True)
class FinishReport:
    """What is put out: where, how much, and the lengths in bytes of the lines of each instant in turn (for splicing)."""

    answers: int = 0
    path: str = ""
    times: list[tuple[int, int]] = field(default_factory=list)
    kept: list[SlotFile] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


def label(program: Program, block: str) -> str:
    """How result slots name their block."""
    return f"{program.id}/{block}"


def ranked(program: Program) -> bool:
    """Whether rows end at ranks: then result slots are written anew each step."""
    return any(w.kind == "last" for w in program.windows)


def evaluate(task: EvaluateTask, name: str, part: int, parts: int, fresh: dict[str, Rows] | None) -> EvaluateReport:
    """One share of the deltas. With ``fresh`` the rows go there (one task does all), else to files for :func:`finish`."""
    program, step = task.program, task.step
    report, terms = EvaluateReport(worker=str(os.getppid())), task.terms()
    for block in program.blocks:
        run = BlockStep(block, program.store, step, terms, part, parts)
        rows = concat([empty([*block.output]), *run.rows()])
        report.observed[block.name] = run.observed
        report.probed += sum(sum(counts) for counts in run.observed.operators.values())
        keep(task, name, block.name, rows, report, fresh)
    return report


def keep(task: EvaluateTask, name: str, block: str, rows: Rows, report: EvaluateReport, fresh: dict[str, Rows] | None) -> None:
    """Keeps the rows that the step adds to a block, whoever joined them: for :func:`finish`, and for later steps."""
    program, step = task.program, task.step
    report.rows += len(rows)
    if fresh is not None:
        fresh[block] = rows
    elif not task.quiet:
        report.fresh += _write(step, program, block, rows, f"fresh-{name}")
    if not ranked(program):
        report.kept += _write(step, program, block, rows.take(rows.end > step.floor), f"result-{name}")
    elif fresh is None and task.quiet:
        report.kept += _write(step, program, block, rows, f"result-{name}")


def finish(task: EvaluateTask, name: str, fresh: Mapping[str, Rows] | Sequence[SlotFile], part: int, parts: int) -> FinishReport:
    """All rows of the step at its instants, and the answers of this part of them."""
    program, step = task.program, task.step
    report = FinishReport()
    rows_of = {}
    for block in program.blocks:
        new = (
            fresh[block.name] if isinstance(fresh, Mapping) else _read_all(step, fresh, label(program, block.name), block.output)
        )
        rows = concat([empty([*block.output]), new, _retained(task, block.name, block.output)])
        if ranked(program):
            rows = _ended(task, rows)
            report.replaced += [f.path for f in step.select("result", shape=label(program, block.name))]
            report.kept += _write(step, program, block.name, rows.take(rows.end > step.floor), f"result-{name}")
        rows_of[block.name] = rows
    if task.quiet:
        return report
    terms = task.terms()
    found = _answers(task, rows_of, terms, part, parts)
    if len(found):
        _put(task, found, terms, f"answers/{step.batch:08d}-{program.id}-{name}", report)
    return report


def _answers(task: EvaluateTask, rows_of: Mapping[str, Rows], terms: TermTable, part: int, parts: int) -> Answers:
    program, instants = task.program, task.step.instants
    low = 1 if instants[0] == NOWHEN else 0
    blocks = {name: to_places(rows, instants) for name, rows in rows_of.items()}
    scope = Scope(blocks, program.store, terms, instants, low)
    return answers(evaluate_tree(program.tree, scope), program.variables, program.operator, instants, part, parts)


def _put(task: EvaluateTask, found: Answers, terms: TermTable, path: str, report: FinishReport) -> None:
    folder = task.step.path
    (folder / "answers").mkdir(exist_ok=True)
    if task.format == "parquet":
        report.path = f"{path}.parquet"
        pa_parquet.write_table(_named(task, found, terms), folder / report.path)
    elif task.format == "arrow":
        time, columns = columns_of(found, terms)
        table: dict[str, Any] = {"time": pa.array(time, pa.int64()), "op": pa.array([found.op] * len(time), pa.string())}
        taken: dict[str, Any] = {f"v{i}": pa.array(columns[v], pa.string()) for i, v in enumerate(task.program.variables)}
        report.path = f"{path}.arrow"
        write_table(folder / report.path, pa.table({**table, **taken}))
    else:
        lines, times = json_lines(found, terms)
        coded = [line.encode() + b"\n" for line in lines]
        report.path = f"{path}.jsonl"
        (folder / report.path).write_bytes(b"".join(coded))
        edges = np.flatnonzero(np.append(True, times[1:] != times[:-1])).tolist()
        sizes = np.add.reduceat(np.array([len(c) for c in coded], np.int64), edges)
        report.times = list(zip(times[edges].tolist(), sizes.tolist()))
    report.answers = found.total


def _named(task: EvaluateTask, found: Answers, terms: TermTable) -> pa.Table:
    """The answers under the names that readers meet: ``time``, ``op``, and a column of terms a variable."""
    time, columns = columns_of(found, terms)
    table: dict[str, Any] = {
        "time": pa.array(time, pa.timestamp("ms", "UTC")),
        "op": pa.array([found.op] * len(time), pa.string()),
    }
    names = column_names(task.program.variables)
    return pa.table({**table, **{name: pa.array(columns[v], pa.string()) for v, name in names.items()}})


# ------------------------------------------------------------------ result slots
def _write(step: Step, program: Program, block: str, rows: Rows, name: str) -> list[SlotFile]:
    if not len(rows):
        return []
    rows = rows.take(np.argsort(rows.end, kind="stable"))
    path = f"results/{step.batch:08d}-{program.id}-{block}-{name}.arrow"
    write_columns(Path(step.folder) / path, {**rows.columns, "#start": rows.start, "#end": rows.end, "#n": rows.n})
    return [SlotFile("result", path, "", label(program, block), len(rows), int(rows.start.max()), int(rows.end[-1]))]


def _rows(columns: dict[str, np.ndarray]) -> Rows:
    start, end, n = (columns.pop(c) for c in ("#start", "#end", "#n"))
    return Rows(columns, start, end, n)


def _read_all(step: Step, files: Sequence[SlotFile], shape: str, output: Sequence[str]) -> Rows:
    return concat([empty(output), *(_rows(read_columns(step.path / f.path)) for f in files if f.shape == shape)])


def _retained(task: EvaluateTask, block: str, output: Sequence[str]) -> Rows:
    """The rows of earlier steps that can still show: all that live, or where answers come row by row those that begin or end."""
    program, step = task.program, task.step
    previous, last = int(step.instants[0]), int(step.instants[-1])
    changing = program.row_wise and program.operator != "rstream" and previous != NOWHEN and not ranked(program)
    parts = [empty(output)]
    for file in step.select("result", shape=label(program, block)):
        if file.greatest <= previous:
            continue
        columns = read_columns(step.path / file.path)
        end = columns["#end"]
        first = int(np.searchsorted(end, previous, "right"))
        stop = int(np.searchsorted(end, last, "right")) if changing and file.least <= previous else len(end)
        parts.append(_rows({name: column[first:stop] for name, column in columns.items()}))
    return concat(parts)


def _ended(task: EvaluateTask, rows: Rows) -> Rows:
    """Rows of last-n windows with the ends that the elements up to now decide."""
    step, end = task.step, rows.end
    for column in [c for c in rows.columns if c.startswith(RANK)]:
        stream = column.removeprefix(RANK)
        ranks = rank_elements(step.path, step.select("elements", stream), step.dropped.get(stream, 0), step.upto)
        end = np.minimum(end, ranks.time_of(rows.columns[column], int(FOREVER)))
    return rows.with_interval(rows.start, end)
