"""A block of joins by the delta rule (DESIGN §3): for each delta source its new rows, joined along its plan.

The rows that a step adds are the union over the delta sources i, in a free order, of: old and new of the occurrences before i, the
new part of i, old of those after i, and the static relations. Intervals intersect on the way.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cqels_opt.operators.compiled_query import Block, BlockFilter, PatternOccurrence, Static
from cqels_opt.operators.eager_aggregation import coalesced
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.filter_costs import Evaluated
from cqels_opt.operators.interval_join import Indexed, as_rows
from cqels_opt.operators.outer_joins import with_unit
from cqels_opt.operators.rows import RANK, Ints, Rows, gathered
from cqels_opt.operators.term_table import TermTable
from cqels_opt.plans import Join, Plan, Scan, Split, parse_planned
from cqels_opt.plans.join_methods import REPLICATED, JoinMethod
from cqels_opt.plans.plan import relations
from cqels_opt.query.templates import INSTANCE
from cqels_opt.rdf.ids import integer_ids
from cqels_opt.state.window_state import content
from cqels_opt.state.worker_cache import relation as static_relation
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER


@dataclass(slots=True)
class Observed:
    """Rows that operators put out, a delta source: by place in the plan; rows before and after each filter, and what that took."""

    operators: dict[str, list[int]] = field(default_factory=dict)
    filters: dict[str, tuple[int, int]] = field(default_factory=dict)
    evaluated: dict[str, Evaluated] = field(default_factory=dict)

    def add(self, other: Observed) -> None:
        """Adds what another task observed."""
        for source, counts in other.operators.items():
            mine = self.operators.setdefault(source, [0] * len(counts))
            self.operators[source] = [a + b for a, b in zip(mine, counts)]
        for name, (before, after) in other.filters.items():
            b, a = self.filters.get(name, (0, 0))
            self.filters[name] = (b + before, a + after)
        for name, evaluated in other.evaluated.items():
            self.evaluated.setdefault(name, Evaluated()).add(evaluated)


class DeltaJoin:
    """One block in one step, in one task that has the ``part``-th of ``parts`` shares of each delta."""

    def __init__(self, block: Block, store: str, step: EvaluationStep, terms: TermTable, part: int = 0, parts: int = 1) -> None:
        self.block, self.store, self.step, self.terms, self.part, self.parts = block, store, step, terms, part, parts
        self.occurrences = {o.name: o for o in block.occurrences}
        self.statics = {s.name: s for s in block.statics}
        self.observed = Observed()
        self._spans: dict[str, tuple[int, int]] = {}
        self.variables = {
            **{o.name: frozenset(o.binds) for o in block.occurrences},
            **{s.name: frozenset(s.binds) for s in block.statics},
            **{f.name: frozenset[str]() for f in block.filters},
        }
        in_turn = step.filters.get(block.name, ())
        self.filters = {
            f.name: f for f in sorted(block.filters, key=lambda f: in_turn.index(f.name) if f.name in in_turn else -1)
        }

    def rows(self) -> Iterator[Rows]:
        """The rows that the step adds, of this task's share of each delta."""
        for source in self.step.orders[self.block.name]:
            yield from self.rows_of(source)

    def rows_of(self, source: str) -> Iterator[Rows]:
        """The rows of one delta source's term."""
        planned, with_new = parse_planned(self.step.plans[self.block.name][source]), self.with_new(source)
        runs = (
            [(_SourceRun(self, source, with_new, (planned, many)), plan) for many, plan in enumerate((planned.few, planned.many))]
            if isinstance(planned, Split)
            else [(_SourceRun(self, source, with_new, None), planned)]
        )
        for run, plan in runs:
            for rows in run.rows(plan):
                yield rows.only([*self.block.output, *(v for v in rows.columns if v.startswith(RANK))])
        self.observed.operators[source] = [count for run, _ in runs for count in run.counts]

    def rows_of_part(
        self, source: str, part: Plan, of: Plan, given: tuple[Plan, Iterator[Rows]] | None, apart: bool = False
    ) -> Iterator[Rows]:
        """The rows of a part of a source's plan. ``given`` is what lies below it, with its rows, which others have made.

        ``apart``: the part is of a bushy right side.
        """
        run = _SourceRun(self, source, self.with_new(source), None)
        yield from run.rows(part, of, given, apart)
        self.observed.operators[source] = run.counts

    def standing(self, plan: Plan, since: int) -> Iterator[Rows]:
        """The rows of all that is there at the beginning of the step, along a plan; of instances those from number ``since`` on."""
        run = _SourceRun(self, "", set(), None, since)
        for rows in run.rows(plan):
            rows = rows.take(rows.start > BEFORE_TIME)  # what is of static parts of merged sources alone is no row of the block
            yield rows.only([*self.block.output, *(v for v in rows.columns if v.startswith(RANK))])

    def with_new(self, source: str) -> set[str]:
        """The occurrences whose new rows also count in a source's term: those before it."""
        order = self.step.orders[self.block.name]
        return set(order[: order.index(source)])

    def bound(self, plan: Plan) -> frozenset[str]:
        """The variables that a plan binds."""
        return frozenset(v for name in relations(plan) for v in self.variables[name])

    def read_after(self, plan: Plan, whole: Plan) -> frozenset[str]:
        """The variables that are read when a part of a ``whole`` plan is done: by operators that come after it, by filters that wait for
        more variables, and by what gets the block's rows.
        """
        done, bound = set(relations(plan)), self.bound(plan)
        later = [self.variables[name] | self.needs(name) for name in relations(whole) if name not in done]
        waiting = [f.variables for f in self.filters.values() if not f.variables <= bound]
        return frozenset(self.block.output).union(*later, *waiting)

    def is_unit(self, name: str) -> bool:
        """Whether a relation of a plan is a unit, or a filter that the plan has as an operator."""
        return name in self.filters or (name in self.statics and self.statics[name].kind != "inner")

    def needs(self, name: str) -> frozenset[str]:
        """The variables that a relation of a plan needs to be bound before it."""
        if name in self.filters:
            return self.filters[name].variables
        unit = self.statics.get(name)
        return frozenset() if unit is None else frozenset(unit.on + unit.reads)

    def alive(self, rows: Rows, source: str) -> Rows:
        """The rows that have not expired before the step's delta begins, and whose time some row of the source's delta shares."""
        begin, end = self._spans.get(source) or self._spans.setdefault(source, self._span(source))
        return rows.take((rows.end > begin) & (rows.start < end))

    def _span(self, source: str) -> tuple[int, int]:
        """From when until when rows are of use to a delta."""
        new = content(self.occurrences[source], self.step).new if source in self.occurrences else None
        if new is None or not len(new):
            return int(self.step.ended), int(FOREVER)
        return max(int(self.step.ended), int(new.start.min())), int(new.end.max())

    def filtered(
        self,
        rows: Rows,
        before: frozenset[str],
        after: frozenset[str],
        placed: Collection[str] = (),
        built: frozenset[str] = frozenset(),
    ) -> Rows:
        """The rows under the filters whose variables have just become bound, but for those that the plan has ``placed`` as operators.

        ``before`` was bound on the left, and ``built`` in a bushy part on the right: what could be evaluated there has been.
        """
        for f in self.filters.values():
            done = before and (f.variables <= before or f.variables <= built)
            if f.variables <= after and not done and len(rows) and f.name not in placed:
                rows = self.passed(rows, f)
        return rows

    def passed(self, rows: Rows, f: BlockFilter) -> Rows:
        """The rows under one filter."""
        began, before = time.perf_counter(), self.terms.calls.combinations
        keep = truth(rows, f.condition, self.terms)
        taken, combinations = time.perf_counter() - began, self.terms.calls.combinations - before
        self.observed.evaluated.setdefault(f.name, Evaluated()).add(Evaluated(1, len(rows), combinations, taken))
        seen, kept = self.observed.filters.get(f.name, (0, 0))
        self.observed.filters[f.name] = (seen + len(rows), kept + int(keep.sum()))
        return rows.take(keep)

    def added(
        self, left: Rows, name: str, on: Sequence[str], sides: Sequence[Indexed], method: JoinMethod = REPLICATED
    ) -> Iterator[Rows]:
        """The left rows joined with a relation by a join method, or under a unit of the block."""
        if name in self.filters:
            yield self.passed(left, self.filters[name])
        elif self.is_unit(name):
            yield from with_unit(left, self.statics[name], sides[0], self.terms)
        else:
            for side in sides:
                yield from method.join(left, side, on)


class _SourceRun:
    """The plan of one delta source."""

    def __init__(
        self, owner: DeltaJoin, source: str, with_new: set[str], part: tuple[Split, int] | None, since: int | None = None
    ) -> None:
        self.owner, self.source, self.with_new, self.part, self.since = owner, source, with_new, part, since
        self.counts: list[int] = []
        self._given: tuple[Plan, Iterator[Rows]] | None = None
        self._methods = owner.step.joins.get(owner.block.name, {}).get(source)

    def rows(
        self, plan: Plan, of: Plan | None = None, given: tuple[Plan, Iterator[Rows]] | None = None, apart: bool = False
    ) -> Iterator[Rows]:
        """The rows of a plan, or of a part ``of`` one."""
        whole = of or plan
        places: dict[int, int] = {}
        self._number(whole, places)
        self.counts = [0] * len(places)
        self._places, self._given = places, given
        self._placed = self.owner.filters.keys() & set(relations(whole))
        self._whole = None if of or given else plan
        for found, _ in self._run(plan, apart):
            yield found

    def _number(self, plan: Plan, places: dict[int, int]) -> None:
        """Numbers the operators in the order in which they run, as :func:`cqels_opt.plans.operators` lists them."""
        if not isinstance(plan, Scan):
            self._number(plan.input, places)
            if isinstance(plan, Join):
                self._number(plan.build, places)
        places[id(plan)] = len(places)

    def _run(self, plan: Plan, apart: bool = False) -> Iterator[tuple[Rows, float]]:
        """The rows of a plan, and how many of them one stands for on average since equal ones have become one: what is observed is of all.

        ``apart`` from the delta, in a bushy part, those that no row of the delta can meet are left out.
        """
        place = self._places[id(plan)]
        if self._given is not None and plan is self._given[0]:
            yield from ((rows, 1.0) for rows in self._given[1])
            return
        if isinstance(plan, Scan):
            rows = self._scan(plan.relation)
            rows = self.owner.alive(rows, self.source) if apart else rows
            scanned = self.owner.filtered(rows, frozenset(), self.owner.bound(plan), self._placed)
            self.counts[place] += len(scanned)
            if len(scanned):
                yield scanned, 1.0
            return
        sides: list[Indexed] | None = None
        alike = 1.0
        method = (self._methods[place] if self._methods else None) or REPLICATED
        before, after = self.owner.bound(plan.input), self.owner.bound(plan)
        right = self.owner.bound(plan.build) if isinstance(plan, Join) else self.owner.variables[plan.relation]
        on, name, built = sorted(before & right), "", right
        read = after if self._whole is None else self.owner.read_after(plan, self._whole)
        spare = not after <= read  # else rows are as different as they were in the relations
        if not isinstance(plan, Join):
            name, built = plan.relation, frozenset()
        for left, many in self._run(plan.input, apart):
            if sides is None:
                sides, alike = self._built(plan.build) if isinstance(plan, Join) else (self._sides(plan.relation), 1.0)
            for joined in self.owner.added(left, name, on, sides, method):
                alive = self.owner.alive(joined, self.source) if apart else joined
                kept = self.owner.filtered(alive, before, after, self._placed, built)
                made = len(kept) * many * alike
                self.counts[place] += round(made)
                if len(kept):
                    found = coalesced(kept, read) if spare else kept
                    yield found, made / len(found)

    def _built(self, plan: Plan) -> tuple[list[Indexed], float]:
        """A bushy part, indexed in memory, and how many rows one of it stands for."""
        made = 0.0

        def parts() -> Iterator[Rows]:
            nonlocal made
            for part, many in self._run(plan, apart=True):
                made += len(part) * many
                yield part

        rows = gathered(parts())
        return ([Indexed.of_rows(rows)], made / len(rows)) if len(rows) else ([], 1.0)

    def _sides(self, name: str) -> list[Indexed]:
        """The indexes in which a relation is probed; a filter has none."""
        if name in self.owner.filters:
            return []
        return indexed_sides(self.owner.block, self.owner.store, self.owner.step, name, name in self.with_new)

    def _scan(self, name: str) -> Rows:
        """The delta's share of this task; or, at the start of a bushy part, a whole relation."""
        if name in self.owner.statics:
            rows = scan_static(self.owner.statics[name], self.owner.store)
            return rows if self.since is None or INSTANCE.name not in rows.columns else since(rows, self.since)
        occurrence: PatternOccurrence = self.owner.occurrences[name]
        held = content(occurrence, self.owner.step)
        if name != self.source:
            return held.rows(name in self.with_new)
        length = len(held.new)
        first, last = length * self.owner.part // self.owner.parts, length * (self.owner.part + 1) // self.owner.parts
        share = held.new.take(np.arange(first, last))
        if self.part is None:
            return share
        split, many = self.part
        relation, variable, at_least = split.cut
        return share.take((fan_out(share, variable, self._sides(relation)) >= at_least) == bool(many))


def since(rows: Rows, number: int) -> Rows:
    """The rows of the instances from a number on."""
    return rows.take(rows.columns[INSTANCE.name] >= integer_ids(np.array([number]))[0])


def indexed_sides(block: Block, store: str, step: EvaluationStep, name: str, with_new: bool) -> list[Indexed]:
    """The indexes of a relation of a block: of a static one its own, of a window one a run of its old (and new) content."""
    for static in block.statics:
        if static.name == name:
            return [Indexed.of_static(static_relation(store, static.at), static.variables)]
    return content(next(o for o in block.occurrences if o.name == name), step).indexed(with_new)


def fan_out(rows: Rows, variable: str, sides: Sequence[Indexed]) -> Ints:
    """How many rows of a relation each row matches on a variable, whatever their intervals."""
    total = np.zeros(len(rows), np.int64)
    for side in sides:
        total += side.relation.index((side.names[variable],)).fanout(rows.columns[variable])
    return total


def scan_static(static: Static, store: str) -> Rows:
    """All rows of a static relation."""
    return as_rows(static_relation(store, static.at), static.variables)
