"""What the optimizer keeps of one delta source between two batches: its plans, and what was estimated and observed of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.estimate_corrections import Logs
from cqels_opt.plans.hindsight import Observed
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_pricing import PricedPlan
from cqels_opt.plans.plan_text import parse_plan
from cqels_opt.plans.relation_set import RelationSet

Estimated: TypeAlias = "list[tuple[RelationSet, float, float]]"
"""Sets of relations with their estimated rows and the factors of their corrections."""

State: TypeAlias = "tuple[str, list[float], bool, Logs, Estimated, list[str], float | None, float, float | None, str | None]"
"""What a checkpoint keeps of one delta source: its plan, the statistics that the plan was chosen from (NaN: not observed), whether it is
kept at any cost, feedback (or the last sample), estimates, former plans, the cost of plans since they were last sampled (None: never), the
savings so far of a switch, the cost of plans since statistics were read (None: to be read at once), and the first plan."""

FORMER = 3
"""The number of plans chosen before that are priced again with every batch, for the trace."""


@dataclass(slots=True)
class SourcePlans:
    """The plans of a delta source. ``memo`` has its alternatives, ``kept`` is the plan that is used at any cost.

    ``current`` is the last chosen plan, with its ``choice`` and its places in the memo (``priced``); ``seen`` are the statistics that it
    was chosen from. ``former`` are plans before it, the last one first, and ``first`` is the first of all. ``estimated`` has the rows
    of sets of relations, each with the factor of its correction. ``stays`` is a greedy plan that is not searched again in this batch.

    Since the last choice: ``observed`` rows of operators, the rows of operators before the delta was ``stopped``, and ``before``, the
    current and former plans before that choice.
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
    observed: Observed = ()
    stopped: dict[RelationSet, float] = field(default_factory=dict)
    before: tuple[Plan | None, tuple[Plan, ...], Plan | None] = (None, (), None)

    def begin(self) -> None:
        """A choice begins."""
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
        return self.priced

    def estimate(self, priced: PricedPlan) -> tuple[float, ...]:
        """The estimated rows after each operator. They are kept with the factors of their corrections."""
        rows, factors = priced.rows()
        self.estimated = dict(zip(priced.covered, zip(rows, factors)))
        return tuple(rows)

    def state(self, learnt: Logs, since: float | None, saved: float, read: float | None) -> State:
        """The state of a source that has a current plan, with what other objects keep of it."""
        assert self.current is not None and self.seen is not None
        estimated = [(relations, *found) for relations, found in self.estimated.items()]
        former, first = [str(plan) for plan in self.former], None if self.first is None else str(self.first)
        return str(self.current), self.seen.tolist(), self.kept is not None, learnt, estimated, former, since, saved, read, first

    def resume(self, state: State) -> None:
        """Continues from a :meth:`state`, without its plan, which the memo need not have. Older checkpoints have five parts."""
        self.former = tuple(map(parse_plan, state[5])) if len(state) > 5 else ()
        self.first = parse_plan(state[9]) if len(state) > 9 and state[9] is not None else None
        self.estimated = {relations: (rows, factor) for relations, rows, factor in state[4]}
