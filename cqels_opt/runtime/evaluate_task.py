"""The tasks of the executors' second stage, and what they report to the driver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from cqels_opt.operators.accumulators import amount_names
from cqels_opt.operators.algebra.group import GroupNode
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.operator_work import OperatorWork
from cqels_opt.operators.row_limit import StoppedDelta
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.term_table import TermTable
from cqels_opt.operators.udf_cache import CallStatistics
from cqels_opt.query.algebra import Call
from cqels_opt.runtime.backfill import Backfill
from cqels_opt.runtime.static_refresh import answers_before
from cqels_opt.state import worker_cache
from cqels_opt.state.result_store import ResultFiles
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.kinds import kind_of

Format = Literal["jsonl", "arrow", "parquet"]


@dataclass(frozen=True)
class EvaluateTask:
    """A program and its step."""

    program: CompiledProgram
    step: EvaluationStep
    format: Format
    named: bool = False  # lines name their query
    feeds: int | None = None  # the number of the stream that the answers feed
    backfill: Backfill | None = None  # the step only builds the state of new queries
    memory: int | None = None  # the bytes that a result may take; None: a share of the machine's
    most: int | None = None  # the most answers that are written; with more, the query is over its limit
    refused: str = ""  # why nothing of the step is evaluated
    attempt: int = 0  # how often deltas of the program were stopped in the batch and planned again
    joint: bool = False  # the answers may be in one file with those of other queries, or stay in memory
    # the step only stores the answers at its instant: the program is replaced by one over other static data
    stores_last_answers: bool = False

    @property
    def quiet(self) -> bool:
        """Whether the step reports no instant, so that it emits nothing."""
        return len(self.step.instants) < 2

    def results(self, block: str) -> ResultFiles:
        """The result slots of a block."""
        output = next(b.output for b in self.program.blocks if b.name == block)
        return ResultFiles(label(self.program, block), output, self.program.pushdown.lookups[block])

    def sums(self) -> dict[GroupNode, ResultFiles]:
        """The groups that are maintained as sums, and their files."""
        return {
            node: ResultFiles(
                f"{self.program.id}/sums{i}", (*node.keys, *amount_names(node)), (tuple(sorted(node.keys)),) if node.keys else ()
            )
            for i, node in self.program.pushdown.additive.items()
        }

    def terms(self) -> TermTable:
        """A term table for the step."""
        return worker_cache.term_table(self.program.store, self.program.scheme, self.step)


@dataclass(slots=True)
class EvaluateReport:
    """The report of a share: counts, the result slots that later steps need, and the files of fresh rows that finish() reads."""

    observed: dict[str, Observed] = field(default_factory=dict)
    kept: list[SlotFile] = field(default_factory=list)
    fresh: list[SlotFile] = field(default_factory=list)
    rows: int = 0
    probed: int = 0  # rows that the operators gave
    worker: str = ""  # the executor's Python process
    calls: dict[Call, CallStatistics] = field(default_factory=dict)  # of extension functions
    seconds: float = 0.0
    failed: str = ""  # why the task was stopped; empty if it was not
    stopped: StoppedDelta | None = None  # a delta that must be planned again; the report is then incomplete


@dataclass(slots=True)
class FinishReport:
    """The report of emitted answers: the file, their number, and for each instant its time and the bytes of its lines (for splicing).

    ``path`` is empty if there are no answers, if ``lines`` has them, or if another report does either for them (:class:`JointAnswers`).
    """

    answers: int = 0
    path: str = ""
    times: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    lines: pa.Buffer | None = None
    kept: list[SlotFile] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    fed: str = ""  # the file of the answers as elements
    untyped: Counter[str] = field(default_factory=Counter)  # values that are not of the type of their column, by variable
    read: int = 0  # rows of blocks that the operators above them read
    calls: dict[Call, CallStatistics] = field(default_factory=dict)  # of extension functions
    seconds: float = 0.0
    failed: str = ""  # why the task was stopped; empty if it was not
    others: list[FinishReport] = field(default_factory=list)  # of further files of answers
    work: list[OperatorWork] = field(default_factory=list)  # of the operators above the joins, inputs first, and of the rest


def label(program: CompiledProgram, block: str) -> str:
    """The name of a block in its result slots."""
    return f"{program.id}/{block}"


def finish_parts(task: EvaluateTask, parts: int) -> int:
    """The number of parts of a large batch's answers: rows of one group or one left side must be in one task."""
    if answers_before(task.program).paths(task.step):
        return 1  # it is not known which part has the answers to compare with
    can = task.program.row_wise or task.program.pushdown.spread
    return parts if can and not ranked(task.program) else 1


def ranked(program: CompiledProgram) -> bool:
    """Whether rows end at ranks; result slots are then rewritten in each step."""
    return any(kind_of(w).counts_elements for w in program.windows)
