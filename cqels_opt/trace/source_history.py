"""The history of one delta source: its plans, the batches that used them, its switches, and what these saved."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from cqels_opt.trace.excess import ExcessCost
from cqels_opt.trace.records import Delta, Moved, OperatorRecord, TraceRecord
from cqels_opt.trace.regret import Regret
from cqels_opt.trace.savings import Savings, first_plan
from cqels_opt.trace.stopped_plans import StoppedPlans


@dataclass(frozen=True, slots=True)
class Reign:
    """A maximal run of batches in which a delta source kept one plan; ``first`` and ``last`` index the query's records."""

    first: int
    last: int
    plan: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A plan change of a delta source: the batch, both plans with their costs, and the statistics that changed.

    ``record`` is the index among the query's records. ``ran_before`` are the operators of the last batch with the old plan,
    ``ran`` those of this batch. ``since`` compares both plans in the batches until the next switch.
    """

    record: int
    batch: int
    time: int | None
    source: str
    before: str
    after: str
    cost: float | None
    instead_of: float | None
    reason: tuple[Moved, ...]
    ran_before: tuple[OperatorRecord, ...] = ()
    ran: tuple[OperatorRecord, ...] = ()
    since: Regret = field(default_factory=Regret)


@dataclass(frozen=True, slots=True)
class PlanUse:
    """A plan of a delta source: its letter, the number of its batches, their total milliseconds, and its cost in the last one.

    ``ran`` are the operators of the last batch that used it.
    """

    letter: str
    plan: str
    batches: int
    ms: float
    cost: float | None
    ran: tuple[OperatorRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceHistory:
    """A delta source: its plans in order of first use, and its plan runs and switches in time order.

    If only the newest switches are kept, ``switched`` counts all of them, and ``regret``, ``savings``, ``excess`` and ``stopped`` are of
    all batches.
    """

    source: str
    plans: tuple[PlanUse, ...]
    reigns: tuple[Reign, ...]
    switches: tuple[Switch, ...]
    switched: int
    regret: Regret
    savings: Savings = field(default_factory=Savings)
    excess: ExcessCost = field(default_factory=ExcessCost)
    stopped: StoppedPlans = field(default_factory=StoppedPlans)

    def letter(self, plan: str) -> str:
        """The letter of one of its plans, ``?`` for another plan."""
        return next((use.letter for use in self.plans if use.plan == plan), "?")


class SourceBuilder:
    """Builds the history of a delta source."""

    def __init__(self, newest: int | None) -> None:
        self._newest = newest
        self._uses: dict[str, PlanUse] = {}
        self._numbered = 0  # number of plans so far, for the next plan's letter
        self._reigns = deque[Reign](maxlen=newest)
        self._switches = deque[Switch](maxlen=newest)
        self._switched = 0
        self._first: str | None = None  # the first plan
        self._savings = Savings()
        self._excess = ExcessCost()
        self._stopped = StoppedPlans()
        self._regret = Regret()  # of all switches but the last
        self._last: tuple[int, float, float] = (0, 0.0, 0.0)  # batches, cost and regret of the last one

    def add(self, index: int, record: TraceRecord, delta: Delta) -> None:
        """Adds a record's data for this source."""
        self._first = first_plan(delta, self._first)
        self._savings += Savings.of_delta(delta, self._first)
        self._excess += ExcessCost.of_delta(delta)
        self._stopped += StoppedPlans.of_delta(delta)
        before = self._reigns[-1] if self._reigns else None
        if before and before.plan == delta.plan:
            self._reigns[-1] = Reign(before.first, index, delta.plan)
        else:
            self._reigns.append(Reign(index, index, delta.plan))
        if before and before.plan != delta.plan:
            instead_of = delta.others.get(before.plan)
            ran = self._uses[before.plan].ran, delta.operators
            self._regret, self._last = self._regret + Regret.of_switch(*self._last), (0, 0.0, 0.0)
            place = index, record.batch, record.stream_time, delta.source
            self._switches.append(Switch(*place, before.plan, delta.plan, delta.cost, instead_of, delta.reason, *ran))
            self._switched += 1
        compared = delta.former and self._switches and delta.former[0].plan == self._switches[-1].before
        if compared and delta.cost is not None and delta.regret is not None:
            batches, cost, regret = self._last
            own = delta.hindsight.cost if delta.hindsight else delta.cost  # of which the regret is a part
            self._last = batches + 1, cost + own, regret + delta.regret
            self._switches[-1] = replace(self._switches[-1], since=Regret.of_switch(*self._last))
        use = self._uses.get(delta.plan)
        letter, batches, ms = (use.letter, use.batches, use.ms) if use else (self._next_letter(), 0, 0.0)
        self._uses[delta.plan] = PlanUse(letter, delta.plan, batches + 1, ms + record.ms.total, delta.cost, delta.operators)

    @property
    def letter(self) -> str:
        """The letter of the current plan."""
        return self._uses[self._reigns[-1].plan].letter

    def history(self, name: str) -> SourceHistory:
        """The history so far."""
        plans = tuple(self._uses.values())
        regret = self._regret + Regret.of_switch(*self._last)
        sums = regret, self._savings, self._excess, self._stopped
        return SourceHistory(name, plans, tuple(self._reigns), tuple(self._switches), self._switched, *sums)

    def _next_letter(self) -> str:
        """The letter of a new plan; also drops plans that no kept switch mentions, if there are too many."""
        if self._newest is not None and len(self._uses) > 2 * self._newest:
            parts = {plan for switch in self._switches for plan in (switch.before, switch.after)}
            self._uses = {plan: use for plan, use in self._uses.items() if plan in parts}
        self._numbered += 1
        return letter_of(self._numbered - 1)


def letter_of(number: int) -> str:
    """A, B, … Z, A1, B1, …"""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")
