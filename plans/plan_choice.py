"""The plan that was chosen for one delta source, with what EXPLAIN and the trace show about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cqels_opt.plans import plan as planning
from cqels_opt.plans.plan import Plan, PlanOperator
from cqels_opt.plans.plan_changes import Reason
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.plan_text import parse_plan
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.statistics import StatisticKey


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """The plan of one delta source for one batch.

    ``operators``, ``filters`` (those that each operator evaluates, in this order) and ``estimated`` (the rows after each operator) are in
    the order of execution. ``cost`` is in the cost model's unit. ``runner_up`` is the cheapest other plan. ``previous`` and ``reason``
    are empty unless ``switched``. ``assumed`` names the statistics that have not been observed. ``retained`` counts the
    alternatives in the memo. ``fallback``: the block was too large to search and was planned greedily. ``former`` are the plans that were
    chosen before this one, the latest first, with their costs under the current statistics.
    """

    source: str
    plan: Plan
    cost: float
    operators: tuple[PlanOperator, ...]
    filters: tuple[tuple[str, ...], ...]
    estimated: tuple[float, ...]
    runner_up: Ranked | None
    previous: Plan | None
    reason: tuple[Reason, ...]
    assumed: tuple[StatisticKey, ...]
    retained: int
    fallback: bool
    former: tuple[Ranked, ...] = ()

    @property
    def switched(self) -> bool:
        """Whether the plan differs from that of the previous batch."""
        return self.previous is not None

    def kept(self, share: float) -> PlanChoice:
        """The same plan for a later delta; ``share`` is its rows over those of the delta that the plan was chosen for."""
        return replace(
            self,
            cost=self.cost * share,
            estimated=tuple(rows * share for rows in self.estimated),
            runner_up=_scaled(self.runner_up, share) if self.runner_up else None,
            previous=None,
            reason=(),
            former=tuple(_scaled(former, share) for former in self.former),
        )

    # ------------------------------------------------------------------ a restart
    def state(self) -> list[Any]:
        """For a checkpoint; without ``previous`` and ``reason``, which only the batch of the choice shows."""
        others = [[str(ranked.plan), ranked.cost] for ranked in self.former]
        second = [str(self.runner_up.plan), self.runner_up.cost] if self.runner_up else None
        assumed = [[key.kind, list(key.names)] for key in self.assumed]
        plan, filters = str(self.plan), list(map(list, self.filters))
        return [
            self.source,
            plan,
            self.cost,
            filters,
            list(self.estimated),
            second,
            assumed,
            self.retained,
            self.fallback,
            others,
        ]

    @classmethod
    def of(cls, state: Sequence[Any], graph: QueryGraph) -> PlanChoice:
        """From a :meth:`state` of a choice for the same query graph."""
        source, text, cost, filters, estimated, second, assumed, retained, fallback, others = state
        plan = parse_plan(text)
        return cls(
            source,
            plan,
            cost,
            tuple(planning.operators(plan, graph)),
            tuple(map(tuple, filters)),
            tuple(estimated),
            Ranked(parse_plan(second[0]), second[1]) if second else None,
            None,
            (),
            tuple(StatisticKey(kind, tuple(names)) for kind, names in assumed),
            retained,
            fallback,
            tuple(Ranked(parse_plan(former), price) for former, price in others),
        )


def _scaled(ranked: Ranked, share: float) -> Ranked:
    return Ranked(ranked.plan, ranked.cost * share)
