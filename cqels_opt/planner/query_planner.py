"""The optimizer of one program: the planners of its blocks, and what steps and trace records carry of their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from operator import is_

from cqels_opt.operators.algebra.block import BlockNode
from cqels_opt.operators.algebra.operator import inputs_first, name_of
from cqels_opt.operators.algebra.scope import schema_of
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.row_limit import StoppedDelta
from cqels_opt.operators.term_table import TermTable
from cqels_opt.planner.background_jobs import BackgroundJobs
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.plan_modes import naming_fixed_plans
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import DeltaRule, Plan, PlanError, Split
from cqels_opt.plans.join_methods import JoinMethod
from cqels_opt.state import worker_cache
from cqels_opt.stats import SharedWindows, SlotCounts
from cqels_opt.trace.records import SubResults
from cqels_opt.windows.binding_slots import Shape


class QueryPlanner:
    """The planners of a program's blocks.

    Raises :class:`PlanError` for a fixed plan of a source that the program does not have."""

    def __init__(
        self,
        program: CompiledProgram,
        options: PlannerOptions,
        background_jobs: BackgroundJobs | None = None,
        shared: SharedWindows | None = None,
    ) -> None:
        """Without ``background_jobs`` the sub-results stay those that were compiled. ``shared`` has the windows of other planners."""
        self.compiled = self._program = program
        shared = SharedWindows() if shared is None else shared
        with naming_fixed_plans():
            self.blocks = {b.name: BlockPlanner(b, program.store, options, shared, background_jobs) for b in program.blocks}
            sources = [source for block in self.blocks.values() for source in block.sources]
            for name in options.fixed or {}:
                if name not in sources:
                    raise PlanError(f"there is no delta source {name!r}; the query has {', '.join(sources)}")

    def advance(self, new: Mapping[str, Sequence[SlotCounts]], before: int, frontier: int) -> None:
        """Moves the statistics of all blocks; see :meth:`BlockPlanner.advance`."""
        for block in self.blocks.values():
            block.advance(new, before, frontier)

    def begin(self, content: Mapping[str, Sequence[SlotCounts]], before: int, frontier: int) -> None:
        """Counts the content of the windows, except of those that other planners have counted."""
        for block in self.blocks.values():
            block.begin(content, before, frontier)

    def choose(self, step: EvaluationStep | None = None) -> tuple[dict[str, dict[str, Plan | Split]], dict[str, DeltaRule]]:
        """The plans by block and source, and the delta rules by block. ``step`` is the step that they are for, if it has a delta."""
        terms = cache(lambda: self._terms(step)) if step is not None else None
        for block in self.blocks.values():
            block.apply_due_design()
            block.choose(step, terms)
        return self._plans(), {name: block.rule for name, block in self.blocks.items()}

    def price_designs(self) -> None:
        """Prices other designs of the blocks where that is due, after the answers; see :meth:`BlockPlanner.price_designs`."""
        for block in self.blocks.values():
            block.price_designs()

    def row_limits(self) -> dict[str, dict[str, tuple[float, ...]]]:
        """For each block the limits on the rows of operators; see :meth:`BlockPlanner.row_limits`."""
        return {name: found for name, block in self.blocks.items() if (found := block.row_limits())}

    def greatest_bound(self) -> int:
        """The greatest size bound of an operator of the current plans; operators without one do not count."""
        return max((block.greatest_bound(source) for block in self.blocks.values() for source in block.delta_plans), default=0)

    def replan(
        self, stopped: StoppedDelta, observed: Mapping[str, Observed], step: EvaluationStep
    ) -> dict[str, dict[str, Plan | Split]]:
        """The plans after a delta was stopped in a step, by block and source. ``observed`` is what operators of all blocks gave before."""
        self.blocks[stopped.block].replan(stopped, step, self._terms(step))
        for name, seen in observed.items():
            self.blocks[name].repeat(seen, but=stopped.source if name == stopped.block else "")
        return self._plans()

    def _terms(self, step: EvaluationStep) -> TermTable:
        """The terms for join sampling, whose calls do not count as the batch's."""
        return worker_cache.term_table(self.compiled.store, self.compiled.scheme, replace(step, remember=False))

    def _plans(self) -> dict[str, dict[str, Plan | Split]]:
        return {name: {s: d.plan for s, d in block.delta_plans.items()} for name, block in self.blocks.items()}

    def physical(self, tasks: int) -> dict[str, dict[str, tuple[JoinMethod | None, ...]]]:
        """For each block the join methods of its plans in a number of tasks, unless all are replicated probes."""
        return {name: found for name, block in self.blocks.items() if (found := block.physical(tasks))}

    def probed(self) -> set[tuple[Shape, tuple[int, ...]]]:
        """The join keys on which the current plans probe windows; see :meth:`BlockPlanner.probed`."""
        return {key for block in self.blocks.values() for key in block.probed()}

    @property
    def program(self) -> CompiledProgram:
        """The program with the sub-results in use; the same object until they change."""
        blocks = tuple(block.block for block in self.blocks.values())
        if not all(map(is_, blocks, self._program.blocks)):
            self._program = replace(self.compiled, blocks=blocks)
        return self._program

    @cached_property
    def above(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """What runs besides the joins: the rows of the joins are stored, then the operators above them run, and answers are written.

        The name of each, the block that it reads, and the variables by which it is kept up to date. An operator may be read twice.
        """
        schema = schema_of(self.compiled.blocks)
        operators = {id(operator): operator for operator in inputs_first(self.compiled.tree)}.values()
        named = ((name_of(o), o.block if isinstance(o, BlockNode) else "", o.touched_by(schema)) for o in operators)
        return (("store", "", ()), *named, ("answers", "", ()))

    @property
    def view_changes(self) -> tuple[SubResults, ...]:
        """The changes of sub-results since the batch before, for the trace."""
        return tuple(change for block in self.blocks.values() if block.advisor for change in block.advisor.events)

    @property
    def filter_orders(self) -> dict[str, tuple[str, ...]]:
        """For each block its filters, in the order in which those of one operator are evaluated."""
        return {name: block.optimizer.filter_order for name, block in self.blocks.items() if block.sources}

    @property
    def fallback(self) -> str | None:
        """Why the optimizer fell back to a greedy order, where it did."""
        found = [name for name, block in self.blocks.items() if block.optimizer.fallback]
        return f"block {', '.join(found)}: more join pairs than the budget; greedy order" if found else None

    @property
    def seconds(self) -> float:
        """The estimated cost of the chosen plans if the model's unit is seconds; else 0."""
        blocks = [b for b in self.blocks.values() if b.optimizer.model.unit == "s" and not b.planned_by_spark]
        return sum(choice.cost for block in blocks for choice in block.choices.values())

    @property
    def cost_unit(self) -> str:
        """The unit of the costs of plans, see :attr:`CostModel.unit`."""
        return next((block.optimizer.model.unit for block in self.blocks.values()), "")

    @property
    def epoch(self) -> int:
        """The epoch of the statistics."""
        return max((block.statistics.epoch for block in self.blocks.values()), default=0)
