"""EXPLAIN as text: one table per plan, and sentences. The figures are those of :func:`cqels_opt.plans.explain.deltas`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cqels_opt.plans.cost import CostModel
from cqels_opt.plans.figures import cost, counted, digits, in_words, milliseconds, nbytes, ratio, rows

Description: TypeAlias = "dict[str, Any]"


def q_error(estimated: float, observed: float) -> float:
    """The factor between estimate and observation, in either direction; counts below 1 are taken as 1."""
    high, low = max(estimated, observed, 1.0), max(min(estimated, observed), 1.0)
    return high / low


def text(described: Sequence[Description], model: CostModel, epoch: int | None = None) -> str:
    """The description as text, with its head."""
    return "\n\n".join([head(model, epoch), *plan_texts(described, model)]) + "\n"


def head(model: CostModel, epoch: int | None) -> str:
    """The cost model, and how current the statistics are."""
    known = "" if epoch is None else f"; statistics of epoch {epoch}" if epoch else "; no rows of the streams observed yet"
    return f"cost model {model.name}{known}"


def plan_texts(described: Sequence[Description], model: CostModel) -> list[str]:
    """A text for each plan."""
    return ["\n".join(_delta_lines(delta, model)) for delta in described]


def _delta_lines(delta: Description, model: CostModel) -> Iterator[str]:
    part = f" where {delta['part']}" if "part" in delta else ""
    yield f"delta {delta['source']}{part}: {delta['plan']}"
    took = _took(delta)
    measured = f"; its operators took {milliseconds(took)} ms" if took is not None else ""
    yield f"  estimated cost {cost(delta['cost'], model.unit)}{measured}; {_retained(delta)}"
    yield from (f"  {line}" for line in table(delta["operators"]))
    if delta.get("reduction"):
        yield f"  semi-join reduction: {delta['reduction']}"
    if delta.get("work_per_row"):
        yield f"  work per row: {delta['work_per_row']}"
    if delta["runner_up"]:
        yield from _runner_up(delta, took, model)
    yield from map(_stopped, delta.get("stopped", ()))
    if delta["switched"]:
        yield f"  switched from: {delta['previous']}"
        for reason in delta["reason"]:
            yield f"    because {in_words(reason['statistic'])} went from {_known(reason['was'])} to {_known(reason['is'])}"
    if delta["assumed"]:
        yield f"  assumed, not observed: {', '.join(map(in_words, delta['assumed']))}"
    for valid in delta.get("validity_ranges", ()):
        ends = [f"{side} {rows(valid[side])}" for side in ("below", "above") if valid[side] is not None]
        yield f"  validity range: {in_words(valid['statistic'])}, now {_known(valid['is'])}: another plan {' or '.join(ends)}"
    if len(delta.get("alternatives", ())) > 1:
        yield "  retained plans, cheapest first:"
        yield from (f"    {cost(other['cost'], model.unit):>10}  {other['plan']}" for other in delta["alternatives"])


def _stopped(plan: Description) -> str:
    """A plan that ran before in the same batch."""
    given = digits(sum(step["observed"] or 0 for step in plan["operators"]))
    if plan["at"] is None:
        return f"  ran before: {plan['plan']} (another delta was stopped; its operators had given {given} rows)"
    step = plan["operators"][plan["at"]]
    operator = f"{step['op']} {step['relation']}"
    return (
        f"  stopped: {plan['plan']} (its operators had given {given} rows; {operator} would have given {digits(plan['expected'])} where"
        f" {rows(step['estimated'])} were expected)"
    )


def _retained(delta: Description) -> str:
    if delta["fallback"]:
        return f"{counted(delta['retained'], 'alternative')} retained; planned greedily, too many pairs to search"
    return "no other plan" if delta["retained"] < 2 else f"{counted(delta['retained'], 'alternative')} retained"


def _took(delta: Description) -> float | None:
    """The measured milliseconds of all operators of a plan; None if one was not measured."""
    found = [step.get("ms") for step in delta["operators"]]
    return None if None in found or not found else sum(ms for ms in found if ms is not None)


def _runner_up(delta: Description, took: float | None, model: CostModel) -> Iterator[str]:
    """The runner-up's estimated cost; once the plan ran, its cost with the observed rows, and what its operators would have done."""
    other = delta["runner_up"]
    yield f"  runner-up, {cost(other['cost'], model.unit)}: {other['plan']}"
    again = other.get("observed")
    if again is None:
        return
    factor = again["cost"] / again["chosen"] if again["chosen"] > 0 else 1.0
    if abs(factor - 1) < 0.005:
        yield "    with the rows of this batch it has the same cost"
        return
    about = f", about {milliseconds(took * factor)} ms" if took else ""
    yield f"    with the rows of this batch it has {ratio(factor)} times the cost, {cost(again['cost'], model.unit)}{about}:"
    steps = again["operators"]
    most = max(steps, key=lambda step: float(step["rows"]))
    yield (
        f"    its operators give {digits(sum(step['rows'] for step in steps))} rows, {digits(most['rows'])} of them by"
        f" {most['op']} {most['relation']}; those of this plan give {digits(again['rows'])}"
    )


def _known(count: float | None) -> str:
    return "unknown" if count is None else rows(count)


# ------------------------------------------------------------------ tables
@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its head, the cell of an operator, and whether it is shown only if a cell has a figure."""

    head: str
    cell: Callable[[Description], str]
    number: bool = True
    always: bool = False


def _error(step: Description) -> str:
    estimated, observed = step["estimated"], step["observed"]
    return "-" if observed is None or estimated is None else ratio(q_error(estimated, observed))


def _side(step: Description, side: int) -> str:
    return nbytes(sides[side]) if (sides := step.get("side_bytes")) else "-"


COLUMNS = (
    _Column(
        "operator", lambda s: f"{s['by']} {s['build']}" if s.get("build") else s.get("by") or s["op"], number=False, always=True
    ),
    _Column("relation", lambda s: _shortened(s["relation"]), number=False),
    _Column("on", lambda s: " ".join("?" + variable for variable in s["on"]), number=False),
    _Column("estimated", lambda s: rows(s["estimated"])),
    _Column("at most", lambda s: rows(s.get("bound"))),
    _Column("observed", lambda s: rows(s["observed"])),
    _Column("q-error", _error),
    _Column("ms", lambda s: milliseconds(s.get("ms"))),
    _Column("bytes", lambda s: nbytes(s.get("bytes"))),
    _Column("tasks", lambda s: rows(s.get("tasks"))),
    _Column("skew", lambda s: ratio(s.get("skew"))),
    _Column("candidates", lambda s: rows(s.get("candidates"))),
    _Column("spared", lambda s: rows(s.get("spared"))),
    _Column("looked up", lambda s: rows(s.get("looked_up"))),
    _Column("left (est.)", lambda s: _side(s, 0)),
    _Column("right (est.)", lambda s: _side(s, 1)),
    _Column("filters", lambda s: " ".join(s.get("filters", ())), number=False),
)
"""A column in which no operator has a figure is not shown. ``left`` and ``right`` are the estimated bytes of the sides of a join."""


def table(operators: Sequence[Description]) -> Iterator[str]:
    """The operators of a plan, in the order of execution, one per line."""
    shown = []
    for column in COLUMNS:
        cells = [column.cell(step) for step in operators]
        if column.always or any(cell not in ("", "-") for cell in cells):
            width = max(map(len, (column.head, *cells)))
            shown.append([f"{cell:>{width}}" if column.number else f"{cell:<{width}}" for cell in (column.head, *cells)])
    yield from ("  ".join(line).rstrip() for line in zip(*shown))


def _shortened(relation: str) -> str:
    """A long bushy part is cut: the plan above the table has it in full."""
    return relation if len(relation) <= 32 else relation[:31] + "…"
