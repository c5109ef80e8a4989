"""The plan that runs for a delta source in a batch, and its entry in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

from cqels_opt.operators.operator_work import OperatorWork
from cqels_opt.planner.skew_splitting import SplitChoice
from cqels_opt.plans import Cut, JoinKind, Plan, PlanChoice, PlanOperator, Ranked, Split
from cqels_opt.plans import operators as plan_operators
from cqels_opt.plans.hindsight import Hindsight
from cqels_opt.plans.join_methods import JoinMethod
from cqels_opt.trace.records import Delta, InHindsight, Moved, OperatorRecord, RunnerUp, StoppedPlan


class LastPlan(NamedTuple):
    """The plan that ran for a delta source in the batch before, as text; of a chosen split also the cut and the rows beyond it."""

    plan: str
    cut: Cut | None = None
    heavy: int | None = None


@dataclass(frozen=True, slots=True)
class StoppedChoice:
    """A choice whose plan was stopped in mid-batch, and the rows that its operators had given.

    ``at`` is the operator that exceeded the limit on its rows, and ``expected`` the rows that it would have given; None if an operator of
    another delta source did.
    """

    choice: PlanChoice
    given: tuple[int, ...]
    at: int | None = None
    expected: float | None = None

    def record(self) -> StoppedPlan:
        """The entry in the trace."""
        steps = zip(self.choice.operators, self.choice.estimated, self.given, strict=True)
        operators = tuple(OperatorRecord(step.op, step.relation, step.on, rows, given) for step, rows, given in steps)
        return StoppedPlan(str(self.choice.plan), self.at, self.expected, operators)


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """The plan of a delta source in a batch: one for all of its delta, or a split (chosen or fixed).

    ``last`` is the plan before. ``by`` has the join method of each operator, unless all are replicated probes. ``hindsight`` compares the
    plan with others under the rows that the batch produced. ``stopped`` are the plans that ran before it in the same batch and were
    stopped.
    """

    whole: PlanChoice
    split: SplitChoice | Split | None = None
    last: LastPlan | None = None
    by: tuple[JoinMethod | None, ...] = ()
    hindsight: Hindsight | None = None
    stopped: tuple[StoppedChoice, ...] = ()

    @property
    def ran(self) -> LastPlan:
        """What the next batch and a checkpoint keep of it."""
        if isinstance(self.split, SplitChoice):
            return LastPlan(str(self.plan), self.split.cut, self.split.heavy)
        return LastPlan(str(self.plan))

    @property
    def plan(self) -> Plan | Split:
        """The plan."""
        return self.split.plan if isinstance(self.split, SplitChoice) else self.split or self.whole.plan

    @property
    def cost(self) -> float:
        """The estimated cost of what runs."""
        return self.split.cost if isinstance(self.split, SplitChoice) else self.whole.cost

    @property
    def switched(self) -> bool:
        """Whether another plan ran in the batch before."""
        if self.last is not None and (self.split is not None or self.last.cut is not None):
            return str(self.plan) != self.last.plan
        return self.whole.switched

    def delta(self, counts: Sequence[int] | None, work: Sequence[OperatorWork] = ()) -> Delta:
        """The entry in the trace; ``counts`` are the rows that its operators gave, ``work`` what they cost where that was measured."""
        cost, other = self.whole.cost, self.whole.runner_up
        parts: list[tuple[Sequence[PlanOperator], Sequence[float | None]]] = [(self.whole.operators, self.whole.estimated)]
        if isinstance(self.split, SplitChoice):
            cost, other = self.split.cost, Ranked(self.whole.plan, self.whole.cost)
            parts = [(part.operators, part.estimated) for part in (self.split.few, self.split.many)]
        elif self.split is not None:  # fixed, so the second plan has no estimates
            kinds = {step.relation: step.op for step in self.whole.operators if step.op in get_args(JoinKind)}
            given = [replace(step, op=kinds.get(step.relation, step.op)) for step in plan_operators(self.split.many)]
            parts.append((given, [None] * len(given)))
        steps = [pair for part in parts for pair in zip(*part)]
        operators = tuple(
            OperatorRecord(
                step.op,
                step.relation,
                step.on,
                rows,
                counts[i] if counts and i < len(counts) else None,
                str(by) if self.by and (by := self.by[i]) else None,
                *(measured(work[i]) if i < len(work) else ()),
            )
            for i, (step, rows) in enumerate(steps)
        )
        runner_up = RunnerUp(str(other.plan), other.cost) if other else None
        former = tuple(RunnerUp(str(f.plan), f.cost) for f in self.whole.former if f.plan != self.plan)
        seen = InHindsight(self.hindsight.cost, self.hindsight.least, self.hindsight.first) if self.hindsight else None
        return Delta(
            self.whole.source,
            str(self.plan),
            cost,
            runner_up,
            self.switched,
            self._reason(),
            operators,
            former,
            self._regret(counts),
            seen,
            tuple(stopped.record() for stopped in self.stopped),
            self.whole.first,
        )

    def _regret(self, counts: Sequence[int] | None) -> float | None:
        """The regret of the last switch in this batch, see :class:`Delta`."""
        if self.split is not None or not self.whole.former:
            return None
        if self.hindsight is not None:
            return None if self.hindsight.before is None else self.hindsight.cost - self.hindsight.before
        return 0.0 if counts and not any(counts) else self.whole.cost - self.whole.former[0].cost

    def _reason(self) -> tuple[Moved, ...]:
        """The statistics that caused a switch; first, for a delta that is or was split, the rows on the heavier side of the cut."""
        if not self.switched:
            return ()
        reason = [Moved(str(r.statistic), r.was, r.now) for r in self.whole.reason]
        was, now = self.last or LastPlan(""), self.ran
        by = now.cut or was.cut
        return (*([Moved(f"rows({self.whole.source}, {by})", was.heavy, now.heavy)] if by else []), *reason)


def measured(work: OperatorWork) -> tuple[float, int | None, int | None, float | None, int | None, int | None, int | None]:
    """The measured fields of the trace entry of an operator, from ``ms`` to ``looked_up``."""
    skew = work.skew
    nbytes = work.nbytes if work.nbytes or not work.rows else None
    return (
        work.ms,
        nbytes,
        work.tasks if work.tasks > 1 else None,
        None if skew is None else round(skew, 3),
        work.candidates or None,
        work.spared or None,
        work.looked_up or None,
    )
