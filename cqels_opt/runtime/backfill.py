"""Backfill: the state of a query that is added to a running job, as if it had been there from the start.

The content of its windows exists: other queries have the same patterns under windows that are at least as long. So its blocks are
joined once from this content. If the query joins a template, the plan starts with the new instances only, and the rows of the
template's other instances stay. Sums and materialized answers follow from the rows, as at the first instant of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.evaluation_step import EvaluationStep, StepFiles
from cqels_opt.operators.instances import names_of
from cqels_opt.operators.rows import Rows, concat, empty
from cqels_opt.plans import Plan
from cqels_opt.query.templates import INSTANCE
from cqels_opt.state.result_store import ResultFiles, is_result


@dataclass(frozen=True, slots=True)
class Backfill:
    """The new part of a program: all of it, or instances from number ``since`` on; and, by block, the plan for its rows."""

    since: int | None
    plans: Mapping[str, Plan]


def backfilled_rows(program: CompiledProgram, step: EvaluationStep, how: Backfill, block: DeltaJoin, files: ResultFiles) -> Rows:
    """The rows of a block: the new ones, joined, and those that its result slots have of the instances that are still there."""
    held = concat([empty(files.output), *(run.rows for _, run in files.runs(step))])
    of_instances = program.instances is not None and INSTANCE.name in files.output
    if how.since is not None and not of_instances:
        return held  # the same for all instances
    if how.since is not None and program.instances is not None:
        held = held.take(names_of(program.instances.names).live(held.columns[INSTANCE.name]))
        if how.since > program.instances.last:
            return held
    return concat([held, *block.valid_rows(how.plans[block.block.name], how.since or 0)])


def without_results(step: EvaluationStep) -> EvaluationStep:
    """The step without the earlier result slots, sums and materialized answers: they are computed again from the rows."""
    return replace(step, files=StepFiles(f for f in step.files if not is_result(f)))
