"""How a program is planned: the optimizer's mode or fixed plans, and the inputs of estimates and costs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from cqels_opt import plugins
from cqels_opt.errors import InputError
from cqels_opt.planner import join_sampling
from cqels_opt.planner.calibration_store import Calibration
from cqels_opt.plans import Plan, SecondsCost, Split
from cqels_opt.plans.cost import CostModel, JoinShape, Shuffled
from cqels_opt.plans.cost_models import COST_MODELS, model_named
from cqels_opt.plans.join_methods import (
    BROADCAST,
    CHOSEN_FROM,
    PARTITIONED,
    REPLICATED,
    SHUFFLE_HASH,
    SORT_MERGE,
    JoinMethod,
    Machine,
)
from cqels_opt.plans.predicate_placement import Placing
from cqels_opt.plans.reoptimization_budget import READING_SECONDS

Estimates: TypeAlias = Literal["bindings", "pairwise", "feedback", "sampling", "all"]
"""The inputs of cardinality estimates: the rows and distinct values of each relation, as in the report (``bindings``); exact join sizes of
pairs (``pairwise``); these with the rows that operators gave before (``feedback``), or with join sampling of the delta (``sampling``); or
with both (``all``)."""


WINDOW_INDEXES = 2.5
"""Look-ups in one index that take as long as one in a window, which has time slices and a run of the newest rows (decision 086)."""


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """``--plan``: a mode of the optimizer, or fixed plans; the cost model and its constants; the inputs of estimates.

    ``split`` allows a skewed delta to be split (``skew_splitting.py``), ``view_selection`` other sub-results than those compiled
    (``view_advisor.py``), ``multiway`` multiway joins (``plans/cycles.py``). ``shuffled``: the sides of a join that the runner shuffles.
    ``joins``: the join methods that are allowed on this ``machine``; the cheapest is used. In the mode ``spark``, Spark's own planner
    decides and ours keeps the written order. ``placing`` states where filters are evaluated. In the mode ``heuristic``, joins are
    ordered by H1 and, with ``graphs``, H2. ``remember``: results of extension functions are kept until a step ends.
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
    reading_seconds: float = READING_SECONDS  # per delta source and edge with a static relation, that reading statistics takes
    placing: Placing = "cost"
    graphs: bool = True
    remember: bool = True
    multiway: bool = True

    @property
    def model(self) -> CostModel:
        """The cost model, with its constants. Raises :class:`InputError` for a name that neither we nor an installed package has."""
        constants = self.calibration.constants
        if self.cost_model == "default":
            return SecondsCost(constants, self.shuffled, multiway=self.multiway)
        if self.cost_model in COST_MODELS:
            return model_named(self.cost_model, constants)
        found = _added("cost_models", self.cost_model, COST_MODELS, constants)
        if not hasattr(found, "operators") or not found.operators(JoinShape(True, True, True)):
            raise InputError(f"the cost model {self.cost_model!r} is no CostModel that has operators for inner joins")
        model: CostModel = found
        return model

    @property
    def window_indexes(self) -> float:
        """The ``window_indexes`` of :func:`~cqels_opt.planner.block_graph.graph_of`: 1 where no index is probed where it lies, and in
        other models, whose functions are of one index per relation.
        """
        return WINDOW_INDEXES if self.cost_model == "default" and self.shuffled == "nothing" else 1.0


_JOINS: Mapping[str, tuple[JoinMethod, ...]] = {
    "auto": CHOSEN_FROM,
    "probe": (REPLICATED,),
    "partitioned": (PARTITIONED,),
    "shuffle-hash": (SHUFFLE_HASH,),
    "sort-merge": (SORT_MERGE,),
    "broadcast": (BROADCAST,),
    "spark": (REPLICATED,),
}


def join_methods(name: str) -> tuple[JoinMethod, ...]:
    """The methods that ``--joins`` allows. ``auto`` chooses by cost, also from the methods that installed packages add."""
    if name == "auto":
        return (*CHOSEN_FROM, *map(_added_method, plugins.names("join_methods")))
    return _JOINS[name] if name in _JOINS else (_added_method(name),)


def _added_method(name: str) -> JoinMethod:
    method = _added("join_methods", name, _JOINS)
    if not isinstance(method, JoinMethod) or not method.in_task:
        raise InputError(f"the join method {name!r} is no JoinMethod that takes and gives rows in Python; no other can be added")
    return method


def _added(group: plugins.Group, name: str, own: Collection[str], *arguments: object) -> Any:
    """What an installed package makes under a name that is not one of our ``own``."""
    installed = plugins.names(group)
    if name not in installed:
        known = ", ".join((*own, *installed))
        raise InputError(f"there is no {group.removesuffix('s').replace('_', ' ')} {name!r}; choose one of {known}")
    return plugins.make(group, name, *arguments)
