"""What a batch has cost over the cheapest retained plan, once the rows that its operators produced are known.

Both plans are priced under the observed rows of the plan that ran (as corrections of their sets, and of larger sets without a correction
of their own; Stillger et al. 2001). The other plan did not run, so its remaining rows are estimates. The difference is the regret of a
decision in the sense of online algorithms (Borodin & El-Yaniv 1998, §1.2); traces call it the excess cost, because they use *regret* for a
switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cqels_opt.plans import plan_extraction
from cqels_opt.plans.estimate_corrections import EstimateCorrections
from cqels_opt.plans.plan_pricing import PricedPlan
from cqels_opt.plans.relation_set import RelationSet

Observed = Sequence[tuple[RelationSet, float]]
"""The rows after the operators of a plan, by the relations joined there."""


class Hindsight(NamedTuple):
    """The cost of the plan that ran and of the cheapest retained plan, in the cost model's unit, under the rows that a batch produced."""

    cost: float
    least: float


def hindsight(
    priced: Mapping[str, PricedPlan], corrections: EstimateCorrections, observed: Mapping[str, Observed]
) -> dict[str, Hindsight]:
    """The hindsight of each delta source whose operators gave rows. Afterwards the corrections are those of before."""
    observed = {source: rows for source, rows in observed.items() if any(seen for _, seen in rows)}
    if not observed:
        return {}
    corrections.assume_observed(observed)
    found = {}
    for source in observed:
        cost, least = priced[source].cost, plan_extraction.cheapest_cost(priced[source].memo, source)
        found[source] = Hindsight(cost, min(cost, least))  # equal but for rounding where the plan itself is the cheapest
    corrections.forget_assumed(observed)
    return found
