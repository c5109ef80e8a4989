"""The built-in cost models, one per file, and the names that ``cost_model=`` and ``--cost-model`` accept for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cqels_opt.plans.cost import Constants, CostModel
from cqels_opt.plans.cost_models.paper import PaperCost
from cqels_opt.plans.cost_models.seconds import SecondsCost

COST_MODELS: Mapping[str, Callable[[Constants], CostModel]] = {"default": SecondsCost, "paper": lambda _: PaperCost()}
"""A function per name that returns the model with the given constants."""


def model_named(name: str | CostModel, constants: Constants | None) -> CostModel:
    """The cost model of this name; a model is returned as it is."""
    if not isinstance(name, str):
        return name
    if name not in COST_MODELS:
        raise ValueError(f"there is no cost model {name!r}; choose {' or '.join(map(repr, COST_MODELS))}")
    return COST_MODELS[name](constants or Constants())
