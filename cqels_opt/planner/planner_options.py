"""How a program is planned: the optimizer's mode or fixed plans, and the inputs of estimates and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cqels_opt.planner import join_sampling
from cqels_opt.planner.calibration_store import Calibration
from cqels_opt.plans import Plan, SecondsCost, Split
from cqels_opt.plans.cost import CostModel, Shuffled, model_named
from cqels_opt.plans.physical import CHOSEN_FROM, JoinMethod, Machine
from cqels_opt.plans.predicate_placement import Placing

Estimates: TypeAlias = Literal["bindings", "pairwise", "feedback", "sampling", "all"]
"""The inputs of cardinality estimates: the rows and distinct values of each relation, as in the report (``bindings``); exact join sizes of
pairs (``pairwise``); these with the rows that operators gave before (``feedback``), or with join sampling of the delta (``sampling``); or
with both (``all``)."""


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """``--plan``: a mode of the optimizer, or fixed plans; the cost model and its constants; the inputs of estimates.

    ``split`` allows a skewed delta to be split (``skew_splitting.py``), ``view_selection`` other sub-results than those compiled
    (``view_advisor.py``). ``shuffled``: the sides of a join that the runner shuffles. ``joins``: the join methods that are allowed on this
    ``machine``; the cheapest is used. In the mode ``spark``, Spark's own planner decides and ours keeps the written order. ``placing``
    states where filters are evaluated. In the mode ``heuristic``, joins are ordered by H1 and, with ``graphs``, H2. ``remember``: results
    of extension functions are kept until a step ends.
    """

    mode: str = "adaptive"
    fixed: Mapping[str, Plan | Split] | None = None
    cost_model: str = "default"
    estimates: Estimates = "all"
    split: bool = True
    view_selection: bool = True
    calibration: Calibration = field(default_factory=Calibration)
    shuffled: Shuffled = "nothing"
    machine: Machine = field(default_factory=Machine)
    joins: tuple[JoinMethod, ...] = CHOSEN_FROM
    sampling_seconds: float = join_sampling.SECONDS  # per relation, that sampling a plan takes
    placing: Placing = "cost"
    graphs: bool = True
    remember: bool = True

    @property
    def model(self) -> CostModel:
        """The cost model, with its constants."""
        if self.cost_model == "default":
            return SecondsCost(self.calibration.constants, self.shuffled)
        return model_named(self.cost_model)
