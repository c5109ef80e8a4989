"""The planner options of a run from its command-line options: a mode of the optimizer, or fixed plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from cqels_opt.errors import InputError, option
from cqels_opt.planner.calibration_store import Calibration, known
from cqels_opt.planner.planner_options import PlannerOptions, join_methods
from cqels_opt.plans import PlanError, parse_plans
from cqels_opt.plans.cost import Shuffled
from cqels_opt.plans.optimizer import MODES
from cqels_opt.plans.predicate_placement import Placing

_SHUFFLED: Mapping[str, Shuffled] = {"partitioned": "left", **dict.fromkeys(("shuffle-hash", "sort-merge", "spark"), "both")}
_PLACED: Mapping[str, Placing] = {
    "cost": "cost",
    "early": "early",
    "late": "late",
    "H1": "last",
    "H2": "last",
    "H3": "early",
    "H4": "late",
}


@contextmanager
def naming_fixed_plans() -> Iterator[None]:
    """Names the option in errors about plans: only fixed ones are written by users."""
    try:
        yield
    except PlanError as error:
        raise PlanError(f"{option('plan=', '--plan ')}fixed: {error}") from error


def plan_mode(
    plan: str,
    fixed: str | None = None,
    cost_model: str = "default",
    constants: str = "measured",
    joins: str = "auto",
    filters: str = "cost",
) -> PlannerOptions:
    """``plan``: a mode, or ``fixed:PLANS``; ``--cost-model`` and ``--constants``; ``--joins``, the allowed join methods; ``--filters``.

    The heuristics of Keskisärkkä et al. 2021 (§4.1) combine: H1 and H2 order the joins, H3 and H4 place filters.
    """
    if str(plan).startswith("fixed:"):
        plan, fixed = "fixed", plan.removeprefix("fixed:")
    if plan not in MODES and (plan != "fixed" or fixed is None):
        raise InputError(f"plan={plan!r}: choose from {', '.join(MODES)}, or give fixed: and plans")
    if fixed is not None:
        plan = "fixed"
    with naming_fixed_plans():
        plans = parse_plans(fixed) if fixed is not None else None
    calibration = known() if constants == "measured" else Calibration()
    if filters not in _PLACED:
        raise InputError(f"{filters!r} is no place for filters: choose from {', '.join(_PLACED)}")
    if filters.startswith("H"):
        plan = "heuristic"
    how = PlannerOptions(
        plan, plans, cost_model, calibration=calibration, shuffled=_SHUFFLED.get(joins, "nothing"), joins=join_methods(joins)
    )
    return replace(how, placing=_PLACED[filters], graphs=filters != "H1")
