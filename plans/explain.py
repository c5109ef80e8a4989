"""EXPLAIN: the chosen plans as text, as JSON and as a drawing, from one description (DESIGN §5, INTERFACE "The trace").

:func:`deltas` is that description; the trace puts it into its records as it is, :func:`text` and :func:`dot` draw it. It has no
measured times, so that tests can compare it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from cqels_opt.plans.cost import CostModel
from cqels_opt.plans.plan import Plan, Scan, right_side
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.validity_ranges import ValidityRange

Description: TypeAlias = "dict[str, Any]"
Observed: TypeAlias = Mapping[str, Sequence[float | None]]
"""For each delta source the rows that its operators produced, in the order of ``PlanChoice.operators``."""


def q_error(estimated: float, observed: float) -> float:
    """The factor between estimate and observation, in either direction; counts below 1 are taken as 1."""
    high, low = max(estimated, observed, 1.0), max(min(estimated, observed), 1.0)
    return high / low


def deltas(
    choices: Mapping[str, PlanChoice],
    observed: Observed | None = None,
    alternatives: Mapping[str, Sequence[Ranked]] | None = None,
    validity: Mapping[str, Sequence[ValidityRange]] | None = None,
) -> list[Description]:
    """The ``deltas`` of the trace and of ``explain --format json``, one entry per delta source.

    For ``explain``, ``alternatives`` adds the retained plans with their costs, cheapest first, and ``validity`` its validity ranges.
    """
    described = [_delta(choice, (observed or {}).get(source)) for source, choice in choices.items()]
    for source, description in zip(choices, described):
        if validity is not None:
            description["validity_ranges"] = [
                {"statistic": h.statistic, "is": h.now, "below": h.below, "above": h.above} for h in validity[source]
            ]
        if alternatives is not None:
            description["alternatives"] = [_ranked(other) for other in alternatives[source]]
    return described


def _delta(choice: PlanChoice, observed: Sequence[float | None] | None) -> Description:
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
                "observed": rows,
            }
            for step, filters, estimated, rows in zip(choice.operators, choice.filters, choice.estimated, counted, strict=True)
        ],
        "assumed": [str(key) for key in choice.assumed],
        "retained": choice.retained,
        "fallback": choice.fallback,
    }


def _ranked(plan: Ranked) -> Description:
    return {"plan": str(plan.plan), "cost": plan.cost}


# ------------------------------------------------------------------ text
NUMBERS = ("estimated", "observed", "q-error", "left", "right")
"""The columns of numbers. Left and right are the bytes of the sides of a join, if they are known."""


def text(described: Sequence[Description], model: CostModel, epoch: int | None = None) -> str:
    """The description as text: one table per plan, with ``-`` for rows that were not observed."""
    head = f"cost model {model.name}" + ("" if epoch is None else f"; statistics of epoch {epoch}")
    return "\n\n".join([head, *("\n".join(_delta_lines(delta, model)) for delta in described)]) + "\n"


def _delta_lines(delta: Description, model: CostModel) -> Iterator[str]:
    part = f" where {delta['part']}" if "part" in delta else ""
    yield f"delta {delta['source']}{part}: {delta['plan']}"
    searched = "; planned greedily, too many pairs to search" if delta["fallback"] else ""
    yield f"  cost {cost(delta['cost'], model)}; {delta['retained']} alternatives retained{searched}"
    yield from (f"  {line}" for line in _table(delta["operators"]))
    if delta["runner_up"]:
        yield f"  runner-up, {cost(delta['runner_up']['cost'], model)}: {delta['runner_up']['plan']}"
    if delta["switched"]:
        yield f"  switched from: {delta['previous']}"
        for reason in delta["reason"]:
            yield f"    because {reason['statistic']} was {rows(reason['was'])} and is {rows(reason['is'])}"
    if delta["assumed"]:
        yield f"  assumed: {', '.join(delta['assumed'])}"
    for valid in delta.get("validity_ranges", ()):
        ends = [f"{side} {rows(valid[side])}" for side in ("below", "above") if valid[side] is not None]
        yield f"  validity range: {valid['statistic']} is {rows(valid['is'])}; another plan {' or '.join(ends)}"
    if "alternatives" in delta:
        yield "  retained plans, cheapest first:"
        yield from (f"    {cost(other['cost'], model):>10}  {other['plan']}" for other in delta["alternatives"])


def _table(operators: Sequence[Description]) -> Iterator[str]:
    header = ["operator", "relation", "on", "estimated", "observed", "q-error", "left", "right", "filters"]
    cells = [header]
    for step in operators:
        estimated, observed = step["estimated"], step["observed"]
        error = "-" if observed is None else f"{q_error(estimated, observed):.2f}"
        on = " ".join("?" + variable for variable in step["on"])
        cells.append(
            [
                f"{step['by']} {step['build']}" if step.get("build") else step.get("by") or step["op"],
                _shortened(step["relation"]),
                on,
                rows(estimated),
                rows(observed),
                error,
                *(nbytes(size) for size in step.get("bytes", (None, None))),
                " ".join(step["filters"]),
            ]
        )
    shown = [i for i in range(len(header)) if i < 6 or any(line[i] for line in cells[1:])]
    header, cells = [header[i] for i in shown], [[line[i] for i in shown] for line in cells]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        aligned = (f"{cell:>{w}}" if name in NUMBERS else f"{cell:<{w}}" for cell, w, name in zip(line, widths, header))
        yield "  ".join(aligned).rstrip()


def rows(count: float | None) -> str:
    """A row count as text: ``-`` for unknown, thousands grouped, small estimates with three digits."""
    if count is None:
        return "-"
    return f"{count:,.0f}" if 100 <= count < 1e12 or count == int(count) < 100 else f"{count:.3g}"


def nbytes(size: float | None) -> str:
    """Bytes as text with three digits, such as ``1.21 MB``; nothing for unknown."""
    if size is None:
        return ""
    exponent = min(4, max(0, int(math.log10(max(size, 1.0))) // 3))
    return f"{size / 1000**exponent:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[exponent]}"


def _shortened(relation: str) -> str:
    """A long bushy part is cut: the plan above the table has it in full."""
    return relation if len(relation) <= 32 else relation[:31] + "…"


def cost(value: float, model: CostModel) -> str:
    """A cost as text, with three digits and its unit."""
    digits = f"{value:,.0f}" if 1000 <= value < 1e12 else f"{value:.3g}"
    return f"{digits} {model.unit}".rstrip()


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
    for side, suffix in ((plan.input, "l"), (right_side(plan), "r")):
        inner, covered = _dot_nodes(side, name + suffix, estimated, symbols)
        label = f" [label={_quoted(rows(estimated[covered]))}]" if covered in estimated else ""
        lines += [*inner, f"{name + suffix} -> {name}{label};"]
        covers |= covered
    symbol = symbols.get(covers, "⋈")
    return [f"{name} [label={_quoted(f'{symbol} {on}' if plan.on else symbol)}];", *lines], covers


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
