"""Evaluates a block of joins by the delta rule (``plans/delta.py``): the rows of each delta source's term, joined along its plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from cqels_opt.operators.block_relations import BlockRelations, Span
from cqels_opt.operators.blocks import Block, BlockFilter
from cqels_opt.operators.eager_aggregation import coalesced
from cqels_opt.operators.evaluation_step import EvaluationStep, Limits
from cqels_opt.operators.executed_operators import Chunk, ExecutedOperator, Joined, together
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.multiway_join import multiway_join
from cqels_opt.operators.observed import FilterWork, Observed
from cqels_opt.operators.operator_work import WorkMeter
from cqels_opt.operators.reducing_probe import ReducingProbe
from cqels_opt.operators.row_limit import RowLimit, RowLimitError, StoppedDelta
from cqels_opt.operators.rows import RANK, Rows, gathered
from cqels_opt.operators.static_builds import known, remember, static_key
from cqels_opt.operators.term_table import TermTable
from cqels_opt.plans import Cut, DeltaRule, Join, Multiway, Plan, Scan, Split
from cqels_opt.plans.join_methods import REPLICATED
from cqels_opt.plans.plan import relations
from cqels_opt.query.templates import INSTANCE
from cqels_opt.rdf.ids import integer_ids
from cqels_opt.windows.intervals import BEFORE_TIME


class DeltaJoin(BlockRelations):
    """One block in one step, in a task that has the ``part``-th of ``parts`` shares of each delta. It counts what it does.

    ``merges_equal``: rows that became equal are merged; without it the rows of each operator are counted and not derived from merged ones.
    ``keeps_builds``: bushy parts over static relations are kept for later steps.
    """

    merges_equal: ClassVar[bool] = True
    keeps_builds: ClassVar[bool] = True

    def __init__(self, block: Block, store: str, step: EvaluationStep, terms: TermTable, part: int = 0, parts: int = 1) -> None:
        super().__init__(block, store, step, terms, step.rules.get(block.name, DeltaRule()))
        self.part, self.parts = part, parts
        self.observed = Observed()
        self.meter = WorkMeter()
        self.stopped: StoppedDelta | None = None

    def rows(self) -> Iterator[Rows]:
        """The rows that the step adds, of this task's share of each delta. If an operator exceeds its limit, they end with RowLimitError
        and ``stopped`` describes it."""
        for source in self.rule.order:
            yield from self.rows_of(source)

    def rows_of(self, source: str) -> Iterator[Rows]:
        """The rows of one delta source's term."""
        plan = self.step.plans[self.block.name][source]
        if isinstance(plan, Split):
            terms = [
                _Term(self, source, few_or_many, _Side(plan.cut, many), merges_equal=self.merges_equal)
                for many, few_or_many in enumerate((plan.few, plan.many))
            ]
        else:
            # a stop evaluates the deltas before this one again, so no operator stops for fewer rows than these gave
            given = float(sum(map(sum, self.observed.operators.values())))
            limits = tuple(max(most, given) for most in self.step.limits.get(self.block.name, {}).get(source, ()))
            terms = [_Term(self, source, plan, merges_equal=self.merges_equal, limits=limits)]
        try:
            for term in terms:
                for rows in term.rows():
                    yield self._output(rows)
        except RowLimitError:
            self.meter.switch(None)
            self.stopped = terms[0].stopped()
            raise
        finally:
            self._observe(source, terms)

    def rows_of_part(self, source: str, part: Plan, of: Plan, given: tuple[Plan, Iterator[Rows]] | None) -> Iterator[Rows]:
        """The rows of a part of a source's plan. ``given`` is a plan below the part with its rows, which others have computed."""
        term = _Term(self, source, of, merges_equal=False)
        if given is not None:
            term.operator_of(given[0]).given = given[1]
        last = term.operator_of(part)
        last.above = None  # other tasks run the operators above
        for chunk in term.chunks(last):
            yield chunk.rows
        self._observe(source, [term])

    def _observe(self, source: str, terms: Sequence[_Term]) -> None:
        self.observed.operators[source] = [operator.count for term in terms for operator in term.operators]
        self.observed.work[source] = [operator.work for term in terms for operator in term.operators]

    def valid_rows(self, plan: Plan, since: int) -> Iterator[Rows]:
        """The rows of everything that is valid at the beginning of the step, along a plan; of instances those from number ``since`` on."""
        for rows in _Term(self, "", plan, since=since).rows():
            # rows of the static parts of merged sources alone are no rows of the block
            yield self._output(rows.take(rows.start > BEFORE_TIME))

    def _output(self, rows: Rows) -> Rows:
        return rows.only([*self.block.output, *(v for v in rows.columns if v.startswith(RANK))])

    def passed(self, rows: Rows, f: BlockFilter) -> Rows:
        """The rows under one filter, counted and timed."""
        began, before = time.perf_counter(), self.terms.calls.combinations
        keep = truth(rows, f.condition, self.terms)
        taken, combinations = time.perf_counter() - began, self.terms.calls.combinations - before
        self.observed.evaluated.setdefault(f.name, FilterWork()).add(FilterWork(1, len(rows), combinations, taken))
        seen, kept = self.observed.filters.get(f.name, (0, 0))
        self.observed.filters[f.name] = (seen + len(rows), kept + int(keep.sum()))
        return rows.take(keep)


class _Side(NamedTuple):
    """A part of a split delta: ``many`` (1) are the rows beyond the cut, 0 the others."""

    cut: Cut
    many: int


class _Term:
    """A plan of one delta source, with its operators in the order in which they run, as :func:`cqels_opt.plans.operators` lists them.

    ``side`` is the part of a split delta, ``since`` the first instance that is read. With ``merges_equal``, rows that have become equal in
    all columns that are read later are merged. ``limits`` are the most rows that the operators may give.
    """

    def __init__(
        self,
        join: DeltaJoin,
        source: str,
        plan: Plan,
        side: _Side | None = None,
        *,
        since: int | None = None,
        merges_equal: bool = True,
        limits: Limits = (),
    ) -> None:
        self.join, self.source, self.plan, self.side, self.since = join, source, plan, side, since
        self.merges_equal, self._limits = merges_equal, limits
        self._span: Span | None = None  # of the rows of the delta, where they are those of this task
        self.placed = join.filters.keys() & set(relations(plan))
        self.operators: list[ExecutedOperator] = []
        self._indexes = cache(lambda name: join.indexes(name, source))
        self._methods = join.step.joins.get(join.block.name, {}).get(source)
        self._root = self._add(plan, False, frozenset(join.block.output))

    def _add(self, plan: Plan, in_build: bool, later: frozenset[str]) -> ExecutedOperator:
        """Adds the operators of a part of the plan. ``later`` are the variables that operators outside of the part read, or the block's
        output.
        """
        join, below, build = self.join, None, None
        if isinstance(plan, Join):
            below = self._add(plan.input, in_build, later.union(*map(join.reads, relations(plan.build))))
            build = self._add(plan.build, True, later.union(*map(join.reads, relations(plan.input))))
            bound = below.bound | build.bound
        else:
            own = plan.relations if isinstance(plan, Multiway) else (plan.relation,)
            below = None if isinstance(plan, Scan) else self._add(plan.input, in_build, later.union(*map(join.reads, own)))
            bound = frozenset[str]().union(*map(join.variables.__getitem__, own), below.bound if below else ())
        waiting = (f.variables for f in join.filters.values() if not f.variables <= bound)
        read = later.union(*waiting) if self.merges_equal else bound
        method = (self._methods[len(self.operators)] if self._methods else None) or REPLICATED
        most = self._limits[len(self.operators)] if self._limits else inf
        limit = RowLimit(most) if most < inf else None
        self.operators.append(ExecutedOperator(plan, below, build, in_build, method, limit, bound, read))
        return self.operators[-1]

    def operator_of(self, plan: Plan) -> ExecutedOperator:
        """The last operator of a part of the plan; no two parts are equal, as a plan has each relation once."""
        return next(operator for operator in self.operators if operator.plan == plan)

    def rows(self) -> Iterator[Rows]:
        """The rows of the whole plan."""
        for chunk in self.chunks(self._root):
            self.join.meter.switch(None)
            yield chunk.rows
        self.join.meter.switch(None)

    def chunks(self, operator: ExecutedOperator) -> Iterator[Chunk]:
        """The rows of an operator and of those below it."""
        if operator.given is not None:
            yield from map(Chunk, operator.given)
        elif operator.input is None:
            yield from self._scanned(operator)
        elif operator.above is None:
            yield from self._joined(operator, operator.input)
        else:
            yield from together(self._joined(operator, operator.input))

    def _scanned(self, operator: ExecutedOperator) -> Iterator[Chunk]:
        self._begin(operator)
        (name,) = relations(operator.plan)
        rows = self._scan(name)
        rows = self.join.meeting(rows, self.source, self._span) if operator.in_build else rows
        rows = self.join.filtered(rows, frozenset(), self.join.variables[name], self.placed)
        operator.give(len(rows), len(rows))
        operator.work.give(rows)
        operator.finished = True
        if len(rows):
            yield Chunk(rows)

    def _begin(self, operator: ExecutedOperator) -> None:
        operator.work.tasks = 1
        self.join.meter.switch(operator.work)

    def _joined(self, operator: ExecutedOperator, below: ExecutedOperator) -> Iterator[Chunk]:
        self._begin(operator)
        join, meter = self.join, self.join.meter
        before, after, read = below.bound, operator.bound, operator.read
        built = frozenset() if operator.build is None else operator.build.bound
        right: _Right | None = None
        for left in self.chunks(below):
            right = right or self._right(operator, before)  # not before there is a row to join
            meter.switch(operator.work)
            reduction, parts = right.joined(left)
            factor = 1.0 if reduction is None else reduction.factors.get(operator, 1.0)
            for rows in parts:
                rows = join.meeting(rows, self.source, self._span) if operator.in_build else rows
                rows = join.filtered(rows, before, after, self.placed, built)
                made = len(rows) * left.weight * right.weight
                operator.give(made, made * factor)
                if len(rows):
                    rows = rows if after <= read else coalesced(rows, read)
                    operator.work.give(rows)
                    yield Chunk(rows, made / len(rows), reduction)
                    meter.switch(operator.work)
        operator.finished = True

    def stopped(self) -> StoppedDelta:
        """Where an operator has exceeded its limit, and the rows before that."""
        number, exceeded = next((i, op.limit.exceeded) for i, op in enumerate(self.operators) if op.limit and op.limit.exceeded)
        given = tuple(operator.count for operator in self.operators)
        finished = tuple(operator.finished for operator in self.operators)
        return StoppedDelta(self.join.block.name, self.source, number, exceeded, given, finished)

    def _right(self, operator: ExecutedOperator, bound: frozenset[str]) -> _Right:
        """The right side of a join of rows that bind some variables: the indexes of one relation or several, or a bushy part that is
        indexed in memory.
        """
        join = self.join
        join.meter.switch(operator.work)
        if isinstance(operator.plan, Multiway):
            joined = join.closing(operator.plan, bound, self.source)
            return _Right(lambda left: (left.reduction, multiway_join(left.rows, joined, operator.work.propose)), 1.0)
        if operator.build is None:
            return _Right(ReducingProbe(join, operator, self._indexes, bound).joined, 1.0)
        built = self._built(operator.build)
        join.meter.switch(operator.work)
        sides, on = [built] if built.rows else [], sorted(bound & operator.build.bound)
        weight = operator.build.made / built.rows if built.rows else 1.0
        return _Right(lambda left: (left.reduction, join.joined(left.rows, "", on, sides, operator.limited)), weight)

    def _built(self, build: ExecutedOperator) -> Indexed:
        """The rows of a bushy part, indexed in memory."""
        key = static_key(build, self.join) if self.since is None and self.join.keeps_builds else None
        if key is not None and (side := known(key, build)) is not None:
            return side
        return remember(key, build, gathered(chunk.rows for chunk in self.chunks(build)))

    def _scan(self, name: str) -> Rows:
        """The delta's share of this task; or, at the start of a bushy part, a whole relation."""
        join = self.join
        if name != self.source:
            rows = join.scan(name, self.source)
            if self.since is None or name not in join.statics or INSTANCE.name not in rows.columns:
                return rows
            return rows.take(rows.columns[INSTANCE.name] >= integer_ids(np.array([self.since]))[0])
        share = join.delta_share(name, join.part, join.parts)
        if self.side is not None:
            relation, variable, at_least = self.side.cut
            share = share.take((join.fan_out(share, variable, relation, self.source) >= at_least) == bool(self.side.many))
        self._span = join.span_of(share)
        return share


class _Right(NamedTuple):
    """The right side of a join: the join of some rows with it, and how many rows of its plan each of its own rows represents."""

    joined: Callable[[Chunk], Joined]
    weight: float
