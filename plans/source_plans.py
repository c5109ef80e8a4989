"""What the optimizer keeps of one delta source between two batches: its plans, and what was estimated and observed of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.estimate_corrections import Logs
from cqels_opt.plans.hindsight import Observed
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.plan_choice import PlanChoice, scales_of
from cqels_opt.plans.plan_pricing import PricedPlan
from cqels_opt.plans.plan_text import parse_plan
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.reoptimization_budget import Reading
from cqels_opt.plans.steady import SteadyBatches, unexpected_seconds


class State(NamedTuple):
    """What a checkpoint keeps of one delta source; older ones end with ``estimated`` or ``saved``.

    ``seen`` are the statistics that the ``plan`` was chosen from (NaN: not observed), ``kept``: it is kept at any cost. ``feedback`` is the
    feedback, or the last sample; ``estimated`` has sets of relations with their rows and the factors of their corrections. ``sampled`` is
    what plans have cost since they were sampled (None: never), ``reading`` the last reading of statistics (None: to be read at once),
    ``saved`` the savings so far of a switch. ``runner_up`` was the cheapest other plan when the memo was last refreshed,
    and ``confirmed`` has the observed rows of the last batch that were about the expected ones. ``steady`` are the batches since the plan
    was priced from ``seen``; None if the next batch cannot be steady. ``confirmations`` are the samples in a row that kept the plan.
    """

    plan: str
    seen: list[float]
    kept: bool
    feedback: Logs
    estimated: list[tuple[RelationSet, float, float]]
    former: Sequence[str] = ()
    sampled: float | None = None
    saved: float = 0.0
    reading: Reading | Sequence[Any] | float | None = None  # older checkpoints have a number, or two fields
    first: str | None = None
    runner_up: str | None = None
    confirmed: Sequence[tuple[RelationSet, float]] = ()
    steady: SteadyBatches | Sequence[Any] | None = None
    confirmations: int = 0


FORMER = 3
"""The number of plans chosen before that are priced again with every batch, for the trace."""


@dataclass(slots=True)
class SourcePlans:
    """The plans of a delta source. ``memo`` has its alternatives, ``kept`` is the plan that is used at any cost.

    ``current`` is the last chosen plan, with its ``choice`` and its places in the memo (``priced``); ``seen`` are the statistics that it
    was chosen from. ``former`` are plans before it, the last one first, and ``first`` is the first of all. ``estimated`` has the rows
    of sets of relations, each with the factor of its correction. ``stays`` is a greedy plan that is not searched again in this batch,
    ``runner_up`` one of an earlier run.

    Since the last choice: ``observed`` rows of operators, the ``confirmed`` ones among them, which were about as expected, the rows of
    operators before the delta was ``stopped``, and ``before``, the current and former plans before that choice.

    ``steady`` are the batches since the plan was priced from ``seen``; None: the next batch cannot be steady. ``anchored`` is the choice of
    that pricing; None after a restart, until it is priced once more. ``changed`` has the factors by which the rows of relations have
    changed since; none where the last choice was priced.
    """

    memo: Memo
    kept: Plan | None = None
    current: Plan | None = None
    choice: PlanChoice | None = None
    priced: PricedPlan | None = None
    seen: NDArray[np.float64] | None = None
    former: tuple[Plan, ...] = ()
    first: Plan | None = None
    estimated: dict[RelationSet, tuple[float, float]] = field(default_factory=dict)
    stays: Plan | None = None
    runner_up: Plan | None = None
    observed: Observed = ()
    confirmed: dict[RelationSet, float] = field(default_factory=dict)
    stopped: dict[RelationSet, float] = field(default_factory=dict)
    before: tuple[Plan | None, tuple[Plan, ...], Plan | None] = (None, (), None)
    steady: SteadyBatches | None = None
    anchored: PlanChoice | None = None
    changed: Mapping[str, float] = field(default_factory=dict)

    @property
    def expected(self) -> tuple[dict[RelationSet, tuple[float, float]], dict[RelationSet, float]]:
        """The :attr:`estimated` and the :attr:`confirmed` rows, which a choice replaces."""
        return self.estimated, self.confirmed

    @expected.setter
    def expected(self, rows: tuple[dict[RelationSet, tuple[float, float]], dict[RelationSet, float]]) -> None:
        self.estimated, self.confirmed = rows

    def begin(self) -> None:
        """A choice begins."""
        self.changed = {}
        self.observed, self.stopped, self.before = (), {}, (self.current, self.former, self.first)

    def take_back(self) -> None:
        """The plans are those before the last choice."""
        self.current, self.former, self.first = self.before

    def replaces(self, plan: Plan, has_rows: bool) -> Plan | None:
        """Notes a chosen plan; returns the one that it replaces, if it is another. The new one is not current yet.

        The first plan is the first one that was chosen from observed rows of the delta (``has_rows``), as a plan that is kept is. Plans
        before it are not priced again.
        """
        others = (other for other in self.former if other not in (self.current, plan))
        former = (self.current, *others)[:FORMER] if self.current is not None and self.first is not None else ()
        if self.first is None and has_rows:
            self.first = plan
        if self.current == plan:
            return None
        self.former = former if self.first is None or self.first == plan or self.first in former else (*former, self.first)
        return self.current

    def placed(self, source: str, plan: Plan) -> PricedPlan:
        """A plan at its places in the memo."""
        if self.priced is None or self.priced.memo is not self.memo or self.priced.plan != plan:
            self.priced = PricedPlan.of(self.memo, source, plan, self.former)
            if self.runner_up is not None:
                self.priced.resume_runner_up(self.runner_up)
            self.runner_up = None
        return self.priced

    def anchor(self, choice: PlanChoice) -> None:
        """The plan stays, and is priced from :attr:`seen`."""
        self.steady, self.anchored = SteadyBatches(), choice

    def keep(self, changed: Mapping[str, float]) -> PlanChoice:
        """The choice of a steady batch; ``changed`` has the factors by which the rows of relations have changed."""
        assert self.anchored is not None
        assert self.priced is not None
        self.changed = changed
        found = self.anchored.scaled(changed)
        rows = zip(self.priced.covered, found.estimated)
        self.estimated = {relations: (n, self.estimated[relations][1]) for relations, n in rows}
        self.confirmed = {}
        return found

    def unscaled(self, rows: Observed) -> Observed:
        """Observed rows of operators as if the relations had the rows that the plan was priced with."""
        if not self.changed or self.priced is None:
            return rows
        scales = dict(zip(self.priced.covered, scales_of(self.priced.operators, self.changed)))
        return [(relations, seen / scales[relations]) for relations, seen in rows]

    def note_if_steady(self, now: Mapping[RelationSet, float], seconds: float) -> bool:
        """Notes the rows of the operators of a batch if they are those of a steady one; returns whether they are. Unexpected rows may have
        taken some ``seconds`` since the plan was priced."""
        if self.steady is None:
            return False
        unexpected = self.steady.unexpected + unexpected_seconds((self.estimated[s][0], seen) for s, seen in now.items())
        if unexpected > seconds:
            return False
        if now:
            if (more := self.steady.after(self.unscaled([*now.items()]))) is None:
                return False
            self.steady = more._replace(unexpected=unexpected)
        self.confirmed = {**now}
        return True

    def estimate(self, priced: PricedPlan) -> tuple[float, ...]:
        """The estimated rows after each operator. They are kept with the factors of their corrections; none of them is confirmed yet."""
        rows, factors = priced.rows()
        self.estimated, self.confirmed = dict(zip(priced.covered, zip(rows, factors))), {}
        return tuple(rows)

    def state(self, feedback: Logs, sampled: float | None, saved: float, reading: Reading | None, confirmations: int) -> State:
        """The state of a source that has a current plan, with what other objects keep of it."""
        assert self.current is not None and self.seen is not None
        estimated = [(relations, *found) for relations, found in self.estimated.items()]
        former, first = [str(plan) for plan in self.former], None if self.first is None else str(self.first)
        kept, other, confirmed = self.kept is not None, self.runner_up, [*self.confirmed.items()]
        if self.priced is not None and self.priced.second is not None:
            other = self.priced.second[1]
        seen, runner_up = self.seen.tolist(), None if other is None else str(other)
        return State(
            plan=str(self.current),
            seen=seen,
            kept=kept,
            feedback=feedback,
            estimated=estimated,
            former=former,
            sampled=sampled,
            saved=saved,
            reading=reading,
            first=first,
            runner_up=runner_up,
            confirmed=confirmed,
            steady=self.steady,
            confirmations=confirmations,
        )

    def resume(self, state: State) -> None:
        """Continues from a :meth:`state`, without its plan, and without what is known of sets that the memo does not have."""
        has = self.memo.has
        self.former = tuple(map(parse_plan, state.former))
        self.first = None if state.first is None else parse_plan(state.first)
        self.runner_up = None if state.runner_up is None else parse_plan(state.runner_up)
        self.estimated = {relations: (rows, factor) for relations, rows, factor in state.estimated if has(relations)}
        self.confirmed = {relations: rows for relations, rows in state.confirmed if has(relations)}
        steady = None if state.steady is None else SteadyBatches(*state.steady)
        self.steady = steady if steady is not None and all(has(relations) for relations, _ in steady.rows) else None
