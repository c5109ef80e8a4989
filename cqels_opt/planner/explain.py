"""EXPLAIN of programs: before a run from known and assumed statistics, or of a run as of its last batch, with observed rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner import filter_report, maintenance_report, row_expressions, sharing_report, view_report
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.planner.skew_splitting import SplitChoice
from cqels_opt.plans import explain as explaining
from cqels_opt.plans.explain import Description
from cqels_opt.state import worker_cache

Format: TypeAlias = Literal["text", "json", "dot"]


def explained(programs: Sequence[CompiledProgram], mode: PlannerOptions, format: Format, alternatives: int) -> str:
    """EXPLAIN of programs that have not run, with up to ``alternatives`` retained alternatives per delta source."""
    planners = [QueryPlanner(program, mode) for program in programs]
    for planner in planners:
        planner.choose()
    return explained_now(planners, mode, format, alternatives)


def explained_now(planners: Sequence[QueryPlanner], mode: PlannerOptions, format: Format, alternatives: int) -> str:
    """EXPLAIN of the plans that were chosen last, with the observed rows of their operators."""
    seconds = mode.cost_model == "default"  # no other cost model has constants
    blocks = [(planner, block) for planner in planners for block in planner.blocks.values()]
    if format == "dot":  # draws the chosen plans alone
        return "\n\n".join(explaining.dot(block.choices) for _, block in blocks)
    designs = [view_report.described(block, alternatives) for _, block in blocks]
    store = worker_cache.store(planners[0].program.store)
    deltas = [list(_deltas(block, alternatives)) for _, block in blocks]
    if format == "json":
        found: dict[str, Any] = {
            "query": planners[0].program.id,
            "constants": mode.calibration.as_json() if seconds else None,
            "static": {"triples": store.triples, "counted": store.counted},
            "deltas": [delta for described in deltas for delta in described],
            "sub_results": [design for design in designs if design is not None],
        }
        if share := sharing_report.shared([planner.program for planner in planners]):
            found["shared"] = share
        above = {planner.program.id: ways for planner in planners if (ways := maintenance_report.maintained(planner.program))}
        if above:
            found["above"] = above
        if filters := [filtering for _, block in blocks for filtering in filter_report.described(block)]:
            found["filters"] = filters
        if slow := {planner.program.id: texts for planner in planners if (texts := row_expressions.row_by_row(planner.program))}:
            found["row_by_row"] = slow
        return json.dumps(found, indent=2, ensure_ascii=False)
    parts = [mode.calibration.text()] if seconds else []
    if not store.counted:
        parts.append(
            f"static data: {store.triples:,} triples, not loaded; rows and distinct values are what their VoID description says\n"
            "  (a constant has its even share of them), and sub-results are chosen after the load"
        )
    if share_text := sharing_report.text([planner.program for planner in planners]):
        parts.append(share_text)
    said = ""
    for (planner, block), described, design in zip(blocks, deltas, designs):
        if len(planners) > 1 and planner.program.id != said:
            parts.append(f"query {planner.program.id}")
        said = planner.program.id
        parts.append(explaining.text(described, block.optimizer.model, planner.epoch))
        if filters_text := filter_report.text(block):
            parts.append(filters_text)
        if design is not None:
            parts.append(view_report.text(design, block))
    parts += [line for planner in planners if (line := row_expressions.text(planner.program))]
    parts += [line for planner in planners if (line := maintenance_report.text(planner.program))]
    return "\n\n".join(parts)


def _deltas(block: BlockPlanner, alternatives: int) -> Iterator[Description]:
    """The plan of each delta source; of a split delta both plans, each with the rows that it is for."""
    for source, decision in block.delta_plans.items():
        counts = block.observed_rows.get(source)
        if isinstance(decision.split, SplitChoice):
            parts = [(decision.split.few, f"not {decision.split.cut}"), (decision.split.many, str(decision.split.cut))]
            for choice, rows in parts:
                mine = None if counts is None else counts[: len(choice.operators)]
                counts = None if counts is None else counts[len(choice.operators) :]
                (described,) = explaining.deltas({source: choice}, None if mine is None else {source: mine})
                yield {**described, "part": rows}
            continue
        retained = {source: block.optimizer.alternatives(source, alternatives)} if alternatives else None
        mine = counts if counts is not None and len(counts) == len(decision.whole.operators) else None
        (described,) = explaining.deltas(
            {source: decision.whole},
            None if mine is None else {source: mine},
            retained,
            {source: block.optimizer.validity(source)},
        )
        for operator, by in zip(described["operators"], decision.by):
            operator |= {"by": str(by)} if by else {}
        yield described
