"""What a batch has cost over other plans, once the rows that its operators produced are known: the cheapest retained one, the first one of
the delta source, and the one before the last switch.

All of them are priced under the observed rows of the plan that ran (as corrections of their sets and of larger ones; Stillger et al. 2001).
The other plans did not run, so their remaining rows are estimates. The difference to the cheapest one is the regret of a decision in the
sense of online algorithms (Borodin & El-Yaniv 1998, §1.2); traces call it the excess cost, because they use *regret* for a switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cqels_opt.plans import plan_extraction
from cqels_opt.plans.estimate_corrections import EstimateCorrections
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.plan_pricing import PricedPlan
from cqels_opt.plans.relation_set import RelationSet

Observed = Sequence[tuple[RelationSet, float]]
"""The rows after the operators of a plan, by the relations joined there."""


Stopped = Sequence[tuple[Plan, Sequence[float]]]
"""Plans that were stopped in mid-batch, each with the rows that its operators had given."""


class Hindsight(NamedTuple):
    """The cost of the plan that ran and of the cheapest retained plan, in the cost model's unit, under the rows that a batch produced.

    ``cost`` includes the cost of plans that were stopped, under the rows that they had given. ``first`` is the cost of the first plan of
    the source, and ``before`` that of the plan before the last switch; None if there is no such plan.
    """

    cost: float
    least: float
    first: float | None = None
    before: float | None = None


def hindsight(
    priced: Mapping[str, PricedPlan],
    corrections: EstimateCorrections,
    observed: Mapping[str, Observed],
    stopped: Mapping[str, Stopped],
    first: Mapping[str, Plan | None],
) -> dict[str, Hindsight]:
    """The hindsight of each delta source whose operators gave rows. Afterwards the corrections are those of before."""
    observed = {source: rows for source, rows in observed.items() if any(seen for _, seen in rows)}
    if not observed:
        return {}
    wasted = {source: _cost_of_stopped(priced[source], corrections, stopped.get(source, ())) for source in observed}
    corrections.assume_observed(observed)
    found = {}
    for source in observed:
        cost, least = priced[source].cost, plan_extraction.cheapest_cost(priced[source].memo, source)
        before = next((places.cost(priced[source].memo) for _, places in priced[source].former), None)
        instead = cost if first[source] == priced[source].plan else _cost_of_former(priced[source], first[source])
        # equal but for rounding where the plan itself is the cheapest
        found[source] = Hindsight(cost + wasted[source], min(cost, least), instead, before)
    corrections.forget_assumed(observed)
    return found


def _cost_of_former(priced: PricedPlan, plan: Plan | None) -> float | None:
    """The cost of a former plan; None if it is not one of them."""
    return next((places.cost(priced.memo) for other, places in priced.former if other == plan), None)


def _cost_of_stopped(priced: PricedPlan, corrections: EstimateCorrections, stopped: Stopped) -> float:
    """The cost of plans that were stopped, as if their operators had no more rows to give than they gave."""
    total, memo, source = 0.0, priced.memo, priced.source
    for plan, rows in stopped:
        found = PricedPlan.of(memo, source, plan, ())
        corrections.assume_observed({source: [*zip(found.covered, rows, strict=True)]})
        total += found.cost
    return total
