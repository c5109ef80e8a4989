"""How a program is planned: the optimizer's mode or the plans that are kept, and what estimates and prices rest on."""

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

Estimates: TypeAlias = Literal["bindings", "pairwise", "feedback", "walks", "all"]
"""What rows are estimated from: the rows and distinct values of each relation, as the report has them (``bindings``); join sizes of
pairs, which are exact (``pairwise``); those with what operators gave before (``feedback``), or with sampled walks of the delta through the
indexes (``walks``); or with both (``all``)."""


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """``--plan``: a mode of the optimizer, or the plans that are kept; the cost model and its constants; and what rows are estimated from.

    ``split`` allows a skewed delta to be split (``skew_splitting.py``), ``designs`` other sub-results to be taken than those compiled
    (``view_advisor.py``). ``shuffled``: the sides of a join that the runner sends through a
    shuffle. ``joins``: what may do the joins on this ``machine``; the cheapest does, and if only one may, that one. The mode ``spark``
    says that the runner's own planner decides: ours is idle, and takes the order written. ``placing`` says where filters stand; in the
    mode ``heuristic`` joins are ordered by H1 and, with ``graphs``, H2. ``remember``: results of extension functions are kept until a
    step ends.
    """

    mode: str = "adaptive"
    fixed: Mapping[str, Plan | Split] | None = None
    cost_model: str = "default"
    estimates: Estimates = "all"
    split: bool = True
    designs: bool = True
    calibration: Calibration = field(default_factory=Calibration)
    shuffled: Shuffled = "nothing"
    machine: Machine = field(default_factory=Machine)
    joins: tuple[JoinMethod, ...] = CHOSEN_FROM
    walk: float = join_sampling.SECONDS  # per relation, that sampling a plan takes
    placing: Placing = "cost"
    graphs: bool = True
    remember: bool = True

    @property
    def model(self) -> CostModel:
        """The cost model, with its constants."""
        if self.cost_model == "default":
            return SecondsCost(self.calibration.constants, self.shuffled)
        return model_named(self.cost_model)
