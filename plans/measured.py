"""EXPLAIN ANALYZE: adds to a description of plans what their operators did, and what the runner-up would have cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from cqels_opt.plans.explain_text import Description
from cqels_opt.plans.plan import Plan, operators
from cqels_opt.plans.plan_choice import PlanChoice

MEASURED = ("observed", "ms", "bytes", "tasks", "skew", "candidates", "spared", "looked_up")
"""The keys of an operator that are measured."""

Price: TypeAlias = Callable[[str, Plan], "tuple[float, list[float]] | None"]
"""The cost of a plan of a delta source and the rows of its operators, as far as these have been observed."""


def with_measures(described: Sequence[Description], measured: Mapping[str, Iterator[Mapping[str, Any]]]) -> None:
    """Adds the measured figures of operators. ``measured`` has those of each source, in the order of the descriptions' operators."""
    for delta in described:
        for operator, figures in zip(delta["operators"], measured.get(delta["source"], iter(())), strict=False):
            operator |= {key: figures[key] for key in MEASURED if figures.get(key) is not None}


def with_runner_up(delta: Description, choice: PlanChoice, price: Price) -> None:
    """Adds the cost of the runner-up under the rows that were observed, and the rows of its operators.

    ``chosen`` is the cost of the chosen plan, priced in the same way, and ``rows`` are the observed rows of all its operators.
    """
    other = choice.runner_up
    if other is None or any(step["observed"] is None for step in delta["operators"]):
        return
    mine, theirs = price(choice.source, choice.plan), price(choice.source, other.plan)
    if mine is None or theirs is None:
        return
    steps = operators(other.plan)
    delta["runner_up"]["observed"] = {
        "cost": theirs[0],
        "chosen": mine[0],
        "rows": sum(step["observed"] for step in delta["operators"]),
        "operators": [{"op": step.op, "relation": step.relation, "rows": n} for step, n in zip(steps, theirs[1], strict=True)],
    }
