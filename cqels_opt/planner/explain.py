"""EXPLAIN of programs: before a run from known and assumed statistics, or of a run as of its last batch, with observed rows.

With the trace records of that batch it is EXPLAIN ANALYZE."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner import batch_report, filter_report, maintenance_report, row_expressions, sharing_report, view_report
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.planner.skew_splitting import SplitChoice
from cqels_opt.plans import Plan, free_connex, join_tree
from cqels_opt.plans import explain as explaining
from cqels_opt.plans import explain_text as explaining_text
from cqels_opt.plans.explain import Format
from cqels_opt.plans.explain_text import Description
from cqels_opt.plans.measured import with_measures, with_runner_up
from cqels_opt.state import worker_cache
from cqels_opt.trace.records import TraceRecord


def explained(programs: Sequence[CompiledProgram], mode: PlannerOptions, format: Format, alternatives: int) -> str:
    """EXPLAIN of programs that have not run, with up to ``alternatives`` retained alternatives per delta source."""
    planners = [QueryPlanner(program, mode) for program in programs]
    for planner in planners:
        planner.choose()
    return explained_now(planners, mode, format, alternatives)


def explained_now(
    planners: Sequence[QueryPlanner],
    mode: PlannerOptions,
    format: Format,
    alternatives: int,
    records: Sequence[TraceRecord] | None = None,
) -> str:
    """EXPLAIN of the plans that were chosen last, with the observed rows of their operators.

    With the trace ``records`` of that batch it is EXPLAIN ANALYZE: what each operator took, what the runner-up would have cost, and why.
    """
    explaining.check_request(format, alternatives)
    blocks = [(planner, block) for planner in planners for block in planner.blocks.values()]
    if format == "dot":  # draws the chosen plans alone
        return "\n\n".join(explaining.dot(block.choices) for _, block in blocks)
    found = _Explained(
        planners,
        mode,
        blocks,
        [view_report.described(block, alternatives) for _, block in blocks],
        [list(_deltas(block, alternatives)) for _, block in blocks],
        None if records is None else {record.query: record for record in records},
    )
    found.measure()
    return json.dumps(found.as_json(), indent=2, ensure_ascii=False) if format == "json" else found.text()


@dataclass(frozen=True, slots=True)
class _Explained:
    """The parts of an EXPLAIN: for each block its sub-results and its plans; for each query its trace record, if it is analyzed."""

    planners: Sequence[QueryPlanner]
    mode: PlannerOptions
    blocks: Sequence[tuple[QueryPlanner, BlockPlanner]]
    designs: Sequence[Description | None]
    deltas: Sequence[Sequence[Description]]
    records: Mapping[str, TraceRecord] | None

    def measure(self) -> None:
        """Adds what was measured."""
        for planner in self.planners:
            if (record := self._record(planner)) is None:
                continue
            measured = {delta.source: iter([step.to_json() for step in delta.operators]) for delta in record.deltas}
            for (owner, block), described in zip(self.blocks, self.deltas):
                if owner is not planner:
                    continue
                with_measures(described, measured)
                for delta in described:
                    if stopped := next(known.stopped for known in record.deltas if known.source == delta["source"]):
                        delta["stopped"] = [plan.to_json() for plan in stopped]
                    plan = block.delta_plans[delta["source"]]
                    if plan.split is None:
                        with_runner_up(delta, plan.whole, block.optimizer.observed_price_of)

    def _record(self, planner: QueryPlanner) -> TraceRecord | None:
        return None if self.records is None else self.records.get(planner.program.id)

    @property
    def programs(self) -> list[CompiledProgram]:
        """The programs."""
        return [planner.program for planner in self.planners]

    @property
    def has_constants(self) -> bool:
        """Whether the cost model has constants."""
        return self.mode.cost_model == "default"

    def as_json(self) -> dict[str, Any]:
        """As JSON."""
        store = worker_cache.store(self.programs[0].store)
        found: dict[str, Any] = {
            "query": self.programs[0].id,
            "constants": self.mode.calibration.as_json() if self.has_constants else None,
            "static": {"triples": store.triples, "counted": store.counted},
            "deltas": self._of_queries(self.deltas),
            "sub_results": self._of_queries([] if design is None else [design] for design in self.designs),
        }
        if share := sharing_report.shared(self.programs):
            found["shared"] = share
        if above := {program.id: ways for program in self.programs if (ways := maintenance_report.maintained(program))}:
            found["above"] = above
        if filters := self._of_queries(filter_report.described(block) for _, block in self.blocks):
            found["filters"] = filters
        if slow := {program.id: texts for program in self.programs if (texts := row_expressions.row_by_row(program))}:
            found["row_by_row"] = slow
        if self.records:
            found["batches"] = [batch_report.described(record) for record in self.records.values()]
        return found

    def _of_queries(self, by_block: Iterable[Iterable[Description]]) -> list[Description]:
        """The descriptions of all blocks; those of several queries begin with their query."""
        several = len(self.planners) > 1
        return [
            {"query": planner.program.id, **described} if several else described
            for (planner, _), found in zip(self.blocks, by_block, strict=True)
            for described in found
        ]

    def text(self) -> str:
        """As text: queries with their plans, and in the end what the costs are made of."""
        parts = [text for text in (self._static(), sharing_report.text(self.programs)) if text]
        heads = {explaining_text.head(block.optimizer.model, planner.epoch) for planner, block in self.blocks}
        parts += heads if len(heads) == 1 else []
        for planner in self.planners:
            parts += self._query(planner, with_head=len(heads) > 1)
        if self.has_constants:
            parts.append(self.mode.calibration.text())
        return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"

    def _static(self) -> str:
        store = worker_cache.store(self.programs[0].store)
        if store.counted:
            return ""
        return (
            f"static data: {store.triples:,} triples, not loaded; rows and distinct values are what their VoID description says\n"
            "  (a constant has its even share of them), and sub-results are chosen after the load"
        )

    def _query(self, planner: QueryPlanner, with_head: bool) -> Iterator[str]:
        program, record = planner.program, self._record(planner)
        if record is not None:
            yield batch_report.head(record)
        elif self.records is not None:
            yield f"query {program.id}: no micro-batch has run yet, so nothing is measured"
        elif len(self.planners) > 1:
            yield f"query {program.id}"
        for (owner, block), described, design in zip(self.blocks, self.deltas, self.designs):
            if owner is planner:
                yield from [explaining_text.head(block.optimizer.model, planner.epoch)] if with_head else ()
                plans = explaining_text.plan_texts(described, block.optimizer.model)
                yield from (filter_report.with_conditions(plan, block) for plan in plans)
                yield from [text] if (text := filter_report.text(block)) else ()
                yield from [view_report.text(design, block)] if design is not None else ()
        yield from [text] if (text := row_expressions.text(program)) else ()
        yield from [text] if record is not None and (text := batch_report.above(record)) else ()
        yield from [text] if (text := maintenance_report.text(program)) else ()


def _deltas(block: BlockPlanner, alternatives: int) -> Iterator[Description]:
    """The plan of each delta source; of a split delta both plans, each with the rows that it is for."""
    for source, delta_plan in block.delta_plans.items():
        counts, bounds = block.observed_rows.get(source), {source: block.size_bounds(source)}
        if isinstance(delta_plan.split, SplitChoice):
            parts = [(delta_plan.split.few, f"not {delta_plan.split.cut}"), (delta_plan.split.many, str(delta_plan.split.cut))]
            for choice, rows in parts:
                mine = None if counts is None else counts[: len(choice.operators)]
                counts = None if counts is None else counts[len(choice.operators) :]
                (described,) = explaining.deltas({source: choice}, None if mine is None else {source: mine}, bounds=bounds)
                yield {**described, **_bounded_work(block, choice.plan, delta_plan.by), "part": rows}
            continue
        retained = {source: block.optimizer.alternatives(source, alternatives)} if alternatives else None
        mine = counts if counts is not None and len(counts) == len(delta_plan.whole.operators) else None
        (described,) = explaining.deltas(
            {source: delta_plan.whole},
            None if mine is None else {source: mine},
            retained,
            {source: block.optimizer.validity(source)},
            bounds,
        )
        for operator, by in zip(described["operators"], delta_plan.by):
            operator |= {"by": str(by)} if by else {}
        yield {**described, **_bounded_work(block, delta_plan.whole.plan, delta_plan.by)}


def _bounded_work(block: BlockPlanner, plan: Plan, by: Sequence[object]) -> Description:
    """The sentences on semi-join reduction and on the work per row, of tasks that have all indexes."""
    if by or block.planned_by_spark:
        return {"reduction": None, "work_per_row": None}
    graph = block.optimizer.graph
    return {
        "reduction": join_tree.described(plan, graph),
        "work_per_row": free_connex.described(plan, graph, block.block.output),
    }
