"""Sampled walks: what the operators of a plan would give for the delta at hand, from a sample of it (DESIGN §5, §6).

The delta is known when its plan is chosen, and so are the indexes that the plan would probe. Each operator is done for a bounded sample
of its input: the matches of the sample are counted in the index, exactly and without making them, and a sample of the matches goes on to
the next operator (index-based join sampling, Leis et al. 2017, after the wander join, Li et al. 2016). While all of it fits, nothing is
estimated. Samples are systematic: at equal distances, from a start that is drawn by the batch's number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cqels_opt.operators.block import BlockStep, indexed_sides
from cqels_opt.operators.content import content
from cqels_opt.operators.join import Indexed
from cqels_opt.operators.program import Block
from cqels_opt.operators.rows import Ints, Rows, concat
from cqels_opt.operators.step import Step
from cqels_opt.operators.terms import TermTable
from cqels_opt.plans import Join, Plan, Scan, Walked
from cqels_opt.plans.plan import operators

SAMPLE = 4096
"""Rows that go on from an operator to the next."""

VERIFIED = 16
"""For a row that goes on so many matches may be looked at, where they must be verified on a second variable."""

HELD = 4_000_000
"""A window with more rows is not walked into: the driver does not hold it. Feedback corrects what is estimated there."""


class Walks:
    """Walks along plans of one block in one step. ``order`` is the delta rule's order of the occurrences."""

    def __init__(
        self, block: Block, store: str, step: Step, order: Sequence[str], terms: TermTable, sample: int = SAMPLE
    ) -> None:
        self.block, self.store, self.step, self.order, self.sample = block, store, step, tuple(order), sample
        self._run = BlockStep(block, store, step, terms)
        self._sides: dict[tuple[str, bool], list[Indexed] | None] = {}
        self._walked: dict[tuple[str, str], tuple[Rows, float]] = {}

    def __call__(self, source: str, plan: Plan) -> list[Walked | None]:
        """What came out of each of :func:`cqels_opt.plans.operators`; None from a bushy part, a window that is too large, or no rows on."""
        found: list[Walked | None] = []
        path: list[Plan] = [plan]
        while not isinstance(path[-1], Scan):
            path.append(path[-1].input)
        for part in reversed(path):
            step = None if isinstance(part, Join) else self._step(source, part)
            if step is None:
                break
            rows, scale = step
            found.append(Walked(len(rows), scale))
            if not len(rows):
                break
        return [*found, *[None] * (len(operators(plan)) - len(found))]

    def _step(self, source: str, plan: Plan) -> tuple[Rows, float] | None:
        """A sample of a part's rows, and how many rows each of them stands for; None where it cannot be walked."""
        key = (source, str(plan))
        if key in self._walked:
            return self._walked[key]
        bound = self._run.bound(plan)
        if isinstance(plan, Scan):
            delta = content(self._run.occurrences[source], self.step).new
            picked = self._pick(len(delta), self.sample)
            self._walked[key] = self._run.filtered(delta.take(picked), frozenset(), bound), _each(len(delta), picked)
            return self._walked[key]
        assert not isinstance(plan, Join)
        before = self._step(source, plan.input)
        sides = self._indexed(source, plan.relation)
        if before is None or sides is None:
            return None
        left, scale = before
        matches = [side.matches(left, plan.on) for side in sides]
        ends = np.cumsum([m.total for m in matches])
        total = int(ends[-1]) if len(ends) else 0
        places = self._pick(total, self.sample * (VERIFIED if len(plan.on) > 1 else 1))
        cuts = np.searchsorted(places, ends)
        starts = [0, *cuts[:-1].tolist()]
        parts = [m.rows(places[a:b] - (end - m.total)) for m, a, b, end in zip(matches, starts, cuts.tolist(), ends.tolist())]
        joined = concat(parts) if parts else left.take(np.empty(0, np.int64))
        rows = self._run.filtered(joined, self._run.bound(plan.input), bound)
        kept = self._pick(len(rows), self.sample)
        scale *= _each(total, places) * _each(len(rows), kept)
        self._walked[key] = rows.take(kept) if len(kept) < len(rows) else rows, scale
        return self._walked[key]

    def _pick(self, total: int, sample: int) -> Ints:
        """Places of a sample among ``total``: all of them, or at equal distances."""
        if total <= sample:
            return np.arange(total)
        start = np.random.default_rng((self.step.batch, total)).random()
        return ((np.arange(sample) + start) * (total / sample)).astype(np.int64)

    def _indexed(self, source: str, name: str) -> list[Indexed] | None:
        with_new = name in self.order[: self.order.index(source)]
        key = (name, with_new)
        if key not in self._sides:
            occurrence = self._run.occurrences.get(name)
            slots = self.step.select("slot", occurrence.window.stream, occurrence.shape.key) if occurrence else []
            held = sum(slot.rows for slot in slots) <= HELD
            self._sides[key] = indexed_sides(self.block, self.store, self.step, name, with_new) if held else None
        return self._sides[key]


def _each(total: int, places: Ints) -> float:
    """How many of ``total`` each of the picked places stands for."""
    return total / len(places) if len(places) else 1.0
