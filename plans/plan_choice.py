"""The plan that was chosen for one delta source, with what EXPLAIN and the trace show about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cqels_opt.plans.plan import Plan, PlanOperator
from cqels_opt.plans.plan_changes import Reason
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.statistics import StatisticKey


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """The plan of one delta source for one batch.

    ``operators``, ``filters`` (those that each operator evaluates, in this order) and ``estimated`` (the rows after each operator) are in
    the order of execution. ``cost`` is in the cost model's unit. ``runner_up`` was the cheapest other plan when statistics were last read
    or plans sampled. ``previous`` and ``reason`` are empty unless ``switched``. ``assumed`` names the statistics that have not been
    observed. ``retained`` counts the alternatives in the memo. ``fallback``: the block was too large to search and was planned greedily.
    ``former`` are the plans that were chosen before this one, the latest first, with their costs under the current statistics. ``first``:
    it is the first plan that was chosen from observed rows of the delta.
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
    first: bool = False

    @property
    def switched(self) -> bool:
        """Whether the plan differs from that of the previous batch."""
        return self.previous is not None

    def scaled(self, changed: Mapping[str, float]) -> PlanChoice:
        """The same choice for a later batch; ``changed`` has the factors by which the rows of relations have changed since."""
        estimated = tuple(n * scale for n, scale in zip(self.estimated, scales_of(self.operators, changed)))
        return replace(self, estimated=estimated, previous=None, reason=(), first=False)


def scales_of(operators: Iterable[PlanOperator], changed: Mapping[str, float]) -> list[float]:
    """The factors by which the rows of operators change with those of the relations."""
    return [math.prod(changed[name] for name in operator.covers) for operator in operators]
