"""EXPLAIN: a description of the chosen plans, which is its JSON, and their drawing (DESIGN §5, INTERFACE "The trace").

:func:`deltas` is the description; :mod:`cqels_opt.plans.explain_text` makes text of it. It has no measured times, so that tests can
compare it; EXPLAIN ANALYZE adds these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isinf
from typing import Literal, TypeAlias, get_args

from cqels_opt.errors import InputError, check_choice
from cqels_opt.plans.explain_text import Description
from cqels_opt.plans.figures import rows
from cqels_opt.plans.plan import Multiway, Plan, Scan, right_side
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.size_bounds import SizeBounds
from cqels_opt.plans.validity_ranges import ValidityRange

Format: TypeAlias = Literal["text", "json", "dot"]
Observed: TypeAlias = Mapping[str, Sequence[float | None]]
"""For each delta source the rows that its operators produced, in the order of ``PlanChoice.operators``."""


def check_request(format: str, alternatives: int) -> None:
    """InputError for an unknown format, or if ``alternatives`` is not a number of plans."""
    check_choice("format", format, get_args(Format))
    if isinstance(alternatives, bool) or not isinstance(alternatives, int) or alternatives < 0:
        raise InputError(f"alternatives={alternatives!r}: a number of plans is expected, 0 for none")


def deltas(
    choices: Mapping[str, PlanChoice],
    observed: Observed | None = None,
    alternatives: Mapping[str, Sequence[Ranked]] | None = None,
    validity: Mapping[str, Sequence[ValidityRange]] | None = None,
    bounds: Mapping[str, SizeBounds | None] | None = None,
) -> list[Description]:
    """The ``deltas`` of the trace and of ``explain --format json``, one entry per delta source.

    For ``explain``, ``alternatives`` adds the retained plans with their costs, cheapest first, and ``validity`` its validity ranges;
    ``bounds`` are upper bounds of the rows of operators (None: unknown).
    """
    described = [
        _delta(choice, (observed or {}).get(source), _bounds(choice, (bounds or {}).get(source)))
        for source, choice in choices.items()
    ]
    for source, description in zip(choices, described):
        if validity is not None:
            description["validity_ranges"] = [
                {"statistic": h.statistic, "is": h.now, "below": h.below, "above": h.above} for h in validity[source]
            ]
        if alternatives is not None:
            description["alternatives"] = [_ranked(other) for other in alternatives[source]]
    return described


def _bounds(choice: PlanChoice, bounds: SizeBounds | None) -> list[float | None]:
    """The upper bound of each operator of a plan."""
    found = [inf if bounds is None else bounds.rows(bounds.graph.set_of(step.covers)) for step in choice.operators]
    return [None if isinf(rows) else rows for rows in found]


def _delta(choice: PlanChoice, observed: Sequence[float | None] | None, bounds: Sequence[float | None]) -> Description:
    counted = [None] * len(choice.operators) if observed is None else observed
    return {
        "source": choice.source,
        "plan": str(choice.plan),
        "cost": choice.cost,
        "runner_up": _ranked(choice.runner_up) if choice.runner_up else None,
        "switched": choice.switched,
        "previous": str(choice.previous) if choice.previous else None,
        "reason": [{"statistic": r.statistic, "was": r.was, "is": r.now} for r in choice.reason],
        "operators": [
            {
                "op": step.op,
                "relation": step.relation,
                "on": list(step.on),
                "filters": list(filters),
                "estimated": estimated,
                "bound": bound,
                "observed": rows,
            }
            for step, filters, estimated, bound, rows in zip(
                choice.operators, choice.filters, choice.estimated, bounds, counted, strict=True
            )
        ],
        "assumed": [str(key) for key in choice.assumed],
        "retained": choice.retained,
        "fallback": choice.fallback,
    }


def _ranked(plan: Ranked) -> Description:
    return {"plan": str(plan.plan), "cost": plan.cost}


# ------------------------------------------------------------------ drawing
SYMBOLS = {"cross": "×", "optional": "⟕", "anti": "▷", "semi": "⋉", "filter": "σ"}


def dot(choices: Mapping[str, PlanChoice]) -> str:
    """The chosen plans for Graphviz, one cluster per delta source; edges carry the estimated rows."""
    lines = ["digraph plans {", "  rankdir=BT;", '  node [shape=box, fontname="sans-serif"];', '  edge [fontname="sans-serif"];']
    for number, choice in enumerate(choices.values()):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(f'delta {choice.source}')};"]
        estimated = {step.covers: count for step, count in zip(choice.operators, choice.estimated)}
        symbols = {step.covers: SYMBOLS.get(step.op, "⋈") for step in choice.operators}
        lines += [f"    {line}" for line in _dot_nodes(choice.plan, f"n{number}", estimated, symbols)[0]]
        lines.append("  }")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_nodes(
    plan: Plan, name: str, estimated: Mapping[frozenset[str], float], symbols: Mapping[frozenset[str], str]
) -> tuple[list[str], frozenset[str]]:
    """The lines of a part of a plan whose topmost node has this name, and the relations in it."""
    if isinstance(plan, Scan):
        return [f"{name} [label={_quoted(plan.relation)}, shape=ellipse];"], frozenset([plan.relation])
    on = " ".join("?" + variable for variable in plan.on)
    lines, covers = list[str](), frozenset[str]()
    right = [Scan(name) for name in plan.relations] if isinstance(plan, Multiway) else [right_side(plan)]
    for side, suffix in ((plan.input, "l"), *((part, "r" * (i + 1)) for i, part in enumerate(right))):
        inner, covered = _dot_nodes(side, name + suffix, estimated, symbols)
        label = f" [label={_quoted(rows(estimated[covered]))}]" if covered in estimated else ""
        lines += [*inner, f"{name + suffix} -> {name}{label};"]
        covers |= covered
    symbol = symbols.get(covers, "⋈")
    return [f"{name} [label={_quoted(f'{symbol} {on}' if plan.on else symbol)}];", *lines], covers


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
