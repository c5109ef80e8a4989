"""The tree of a plan as data for drawing, parsed from its text."""

from __future__ import annotations

from typing import Any

from cqels_opt.plans import Join, Multiway, Plan, PlanError, Probe, Scan, Split, parse_planned

Tree = dict[str, Any]


def plan_trees(text: str) -> list[Tree] | None:
    """The tree of a plan, two for a split delta; None if the text is not one of our plans (``--plan spark``).

    A leaf is ``{relation, operator}``, a join ``{on, operator, sides}`` with its left side first. ``operator`` is the index, in
    the trace's ``operators``, of the operator that produced the rows; None if it has no operator of its own (a probed relation).
    """
    try:
        plan = parse_planned(text)
    except PlanError:
        return None
    if not isinstance(plan, Split):
        return [_tree(plan, 0)[0]]
    few, used = _tree(plan.few, 0)
    many, _ = _tree(plan.many, used)
    return [few, {**many, "beyond": str(plan.cut)}]


def _tree(plan: Plan, used: int) -> tuple[Tree, int]:
    """The tree of a part, and the number of operators so far, which run in the order of :func:`cqels_opt.plans.operators`."""
    match plan:
        case Scan(relation):
            return {"relation": relation, "operator": used}, used + 1
        case Probe(before, relation, on):
            left, used = _tree(before, used)
            return {"on": list(on), "operator": used, "sides": [left, {"relation": relation, "operator": None}]}, used + 1
        case Join(before, build, on):
            left, used = _tree(before, used)
            right, used = _tree(build, used)
            return {"on": list(on), "operator": used, "sides": [left, right]}, used + 1
        case Multiway(before, names, keys):
            tree, used = _tree(before, used)
            for name, on in zip(names, keys):  # drawn as one join per relation, of which the last has the rows
                last = name == names[-1]
                tree = {"on": list(on), "operator": used if last else None, "sides": [tree, {"relation": name, "operator": None}]}
            return tree, used + 1
