"""Sampled walks: what the operators of a plan would give for the delta at hand, from a sample of it (DESIGN §5, §6).

The delta is known when its plan is chosen, and so are the indexes that the plan would probe. Each operator is done for a bounded sample
of its input: the matches of the sample are counted in the index, exactly and without making them, and a sample of the matches goes on to
the next operator (index-based join sampling, Leis et al. 2017, after the wander join, Li et al. 2016). While all of it fits, nothing is
estimated. Samples are systematic: at equal distances, from a start that is drawn by the batch's number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from cqels_opt.operators.compiled_query import Block
from cqels_opt.operators.delta_join import DeltaJoin, indexed_sides
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import Ints, Rows, concat, unit
from cqels_opt.operators.term_table import TermTable
from cqels_opt.plans import Join, Plan, Probe, SampledCardinality, Scan
from cqels_opt.plans.plan import operators, relations
from cqels_opt.state.window_state import content
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

Sample: TypeAlias = "tuple[Rows, float]"
"""Rows, and how many rows of the whole each of them stands for."""

SAMPLE = 1024
"""Rows that go on from an operator to the next."""

FILTERED = 512
"""Rows of a sample for which a filter that is an operator is evaluated: it is dear."""

VERIFIED = 16
"""For a row that goes on so many matches may be looked at, where they must be verified on a second variable."""

TAKES = 0.001
"""Seconds a relation that walking a delta's plan takes."""


class JoinSampler:
    """Walks along plans of one block in one step.

    ``order`` is the delta rule's order of the occurrences; ``only`` has the part of a source's delta that is meant, where it is not all.
    """

    def __init__(
        self,
        block: Block,
        store: str,
        step: EvaluationStep,
        order: Sequence[str],
        terms: TermTable,
        sample: int = SAMPLE,
        only: Mapping[str, Rows] | None = None,
    ) -> None:
        self.block, self.store, self.step, self.order, self.sample = block, store, step, tuple(order), sample
        self._only = only or {}
        self._run = DeltaJoin(block, store, step, terms)
        self._sides: dict[tuple[str, bool], list[Indexed]] = {}
        self._walked: dict[tuple[str, str], Sample | None] = {}
        self._placed: frozenset[str] = frozenset()

    def __call__(self, source: str, plan: Plan) -> list[SampledCardinality | None]:
        """What came out of each of :func:`cqels_opt.plans.operators`; None from where no row is left or too many are made.

        A bushy part is walked from its own beginning, and what it gives to the rest relation by relation.
        """
        found: list[SampledCardinality | None] = []
        self._placed |= self._run.filters.keys() & set(relations(plan))
        path: list[Plan] = [plan]
        while not isinstance(path[-1], Scan):
            path.append(path[-1].input)
        for part in reversed(path):
            if isinstance(part, Join):
                found += self(source, part.build)
            step = self._step(source, self._left_deep(part))
            if step is None:
                break
            rows, scale = step
            found.append(SampledCardinality(len(rows), scale))
            if not len(rows):
                break
        return [*found, *[None] * (len(operators(plan)) - len(found))]

    def _left_deep(self, plan: Plan) -> Plan:
        """A plan without bushy parts that gives the same rows: their relations one by one, connected ones first."""
        if isinstance(plan, Scan):
            return plan
        walked = self._left_deep(plan.input)
        bound = self._run.bound(walked)
        waiting = relations(plan.build) if isinstance(plan, Join) else [plan.relation]
        while waiting:
            able = [name for name in waiting if self._run.needs(name) <= bound]
            name = next((name for name in able if self._run.variables[name] & bound), able[0])
            waiting.remove(name)
            walked = Probe(walked, name, tuple(sorted(self._run.variables[name] & bound)))
            bound |= self._run.variables[name]
        return walked

    def _step(self, source: str, plan: Plan) -> Sample | None:
        """A sample of a left-deep plan's rows; None where it cannot be walked."""
        key = (source, str(plan))
        if key not in self._walked:
            self._walked[key] = self._scanned(source, plan.relation) if isinstance(plan, Scan) else self._probed(source, plan)
        return self._walked[key]

    def _scanned(self, source: str, name: str) -> Sample | None:
        """Of the delta, or of a relation with which a bushy part begins."""
        bound = self._run.variables[name]
        if name == source:
            delta = self._only[source] if source in self._only else content(self._run.occurrences[source], self.step).new
            picked = self._pick(len(delta), self.sample)
            return self._run.filtered(delta.take(picked), frozenset(), bound, self._placed), _each(len(delta), picked)
        return self._joined(source, (unit(int(BEFORE_TIME), int(FOREVER)), 1.0), Probe(Scan(name), name, ()), frozenset())

    def _probed(self, source: str, plan: Plan) -> Sample | None:
        """Of a join: the matches of a sample of its input."""
        assert isinstance(plan, Probe)
        before = self._step(source, plan.input)
        if before is None or not len(before[0]):
            return before
        return self._joined(source, before, plan, self._run.bound(plan.input))

    def _joined(self, source: str, before: Sample, plan: Probe, bound: frozenset[str]) -> Sample | None:
        """A sample joined with one more relation; apart from the delta, rows that expired before it are left out."""
        sides, name, on = self._indexed(source, plan.relation), plan.relation, plan.on
        left, scale = before
        if self._run.is_unit(name):
            return self._with_unit(left, scale, name, sides, bound)
        matches = [side.matches(left, on) for side in sides]
        ends = np.cumsum([m.total for m in matches])
        total = int(ends[-1]) if len(ends) else 0
        places = self._pick(total, self.sample * (VERIFIED if len(on) > 1 else 1))
        cuts = np.searchsorted(places, ends)
        starts = [0, *cuts[:-1].tolist()]
        parts = [m.rows(places[a:b] - (end - m.total)) for m, a, b, end in zip(matches, starts, cuts.tolist(), ends.tolist())]
        joined = concat(parts) if parts else left.take(np.empty(0, np.int64))
        if relations(plan)[0] != source:
            joined = self._run.alive(joined, source)
        rows = self._run.filtered(joined, bound, bound | self._run.variables[name], self._placed)
        kept = self._pick(len(rows), self.sample)
        scale *= _each(total, places) * _each(len(rows), kept)
        return (rows.take(kept) if len(kept) < len(rows) else rows), scale

    def _with_unit(self, left: Rows, scale: float, name: str, sides: Sequence[Indexed], bound: frozenset[str]) -> Sample | None:
        """A sample under a unit, each row whole; None where an OPTIONAL would make too many rows of it."""
        unit = self._run.statics.get(name)
        if unit is None:
            few = self._pick(len(left), FILTERED)
            left, scale = left.take(few), scale * _each(len(left), few)
        expands = unit is not None and (unit.kind == "optional" or unit.condition is not None)
        if unit is not None and expands and sides[0].matches(left, unit.on).total > self.sample * VERIFIED:
            return None
        found = concat(list(self._run.added(left, name, (), sides)))
        rows = self._run.filtered(found, bound, bound | self._run.variables[name], self._placed)
        kept = self._pick(len(rows), self.sample)
        return rows.take(kept) if len(kept) < len(rows) else rows, scale * _each(len(rows), kept)

    def _pick(self, total: int, sample: int) -> Ints:
        """Places of a sample among ``total``: all of them, or at equal distances."""
        if total <= sample:
            return np.arange(total)
        start = np.random.default_rng((self.step.batch, total)).random()
        return ((np.arange(sample) + start) * (total / sample)).astype(np.int64)

    def _indexed(self, source: str, name: str) -> list[Indexed]:
        if name in self._run.filters:
            return []
        with_new = name in self.order[: self.order.index(source)]
        key = (name, with_new)
        if key not in self._sides:
            self._sides[key] = indexed_sides(self.block, self.store, self.step, name, with_new)
        return self._sides[key]


def _each(total: int, places: Ints) -> float:
    """How many of ``total`` each of the picked places stands for."""
    return total / len(places) if len(places) else 1.0
