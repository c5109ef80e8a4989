"""EXPLAIN of view selection: the sub-results in use with rows, bytes and build time, and the costs of other designs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cqels_opt.lod.open_store import open_store
from cqels_opt.planner import view_candidates
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.statistics_adapters import CandidateStatistics
from cqels_opt.plans import SecondsCost
from cqels_opt.plans.explain_text import Description
from cqels_opt.plans.figures import cost as price
from cqels_opt.plans.figures import rows, seconds
from cqels_opt.plans.relation_set import members
from cqels_opt.plans.view_selection import Design, neighbours


def described(planner: BlockPlanner, alternatives: int) -> Description | None:
    """The design of a planned block, and up to ``alternatives`` of its neighbours, cheapest first; None if the block has only one design.

    Missing sub-results of the neighbours are measured at once. ``seconds`` is null if the unit of the cost model is not seconds.
    """
    catalogue, block = planner.catalogue, planner.block
    if not block.parts:
        return None
    used = []
    for static in block.inner:
        if static.of.bit_count() > 1:
            like = catalogue.size_of(static.of)
            parts = [block.parts[i].name for i in members(static.of)]
            sizes = {"rows": static.rows, "bytes": round(like.bytes), "seconds": _seconds(planner, like)}
            used.append({"relation": static.name, "variables": list(static.variables), "of": parts, **sizes})
    others = []
    if alternatives:
        for static in catalogue.statics.values():
            planner.declare(static)
        found = neighbours(view_candidates.default_design(block), catalogue.adjacent)
        others = sorted((_other(planner, design) for design in found), key=lambda other: other["cost"] or float("inf"))
    return {
        "block": block.name,
        "budget": block.budget,
        "cost": sum(delta_plan.cost for delta_plan in planner.delta_plans.values()),
        "sub_results": used,
        "alternatives": others[:alternatives],
    }


def _seconds(planner: BlockPlanner, like: view_candidates.Measured) -> float | None:
    model = planner.optimizer.model
    return like.seconds(model.constants) if isinstance(model, SecondsCost) else None


def _other(planner: BlockPlanner, design: Design) -> dict[str, Any]:
    catalogue = planner.catalogue
    for group in catalogue.missing(design):
        catalogue.measured[group] = view_candidates.measure(catalogue.block, open_store(catalogue.store), group)
    block, coming = catalogue.sketch(design), catalogue.sizes_to_build(design)
    optimizer = planner.optimizer_of(block)
    cost = optimizer.price({source: CandidateStatistics(found, coming) for source, found in planner.source_statistics().items()})
    seconds = [_seconds(planner, catalogue.measured[group]) for group in catalogue.missing(design)]
    return {
        "relations": [static.name for static in block.statics],
        "cost": cost,
        "bytes": round(catalogue.bytes(design)),
        "seconds": None if None in seconds else sum(s for s in seconds if s is not None),
    }


def text(description: Description, planner: BlockPlanner) -> str:
    """The description as text."""
    return "\n".join(_lines(description, planner)) + "\n"


def _lines(found: Description, planner: BlockPlanner) -> Iterator[str]:
    model = planner.optimizer.model
    yield f"sub-results of block {found['block']}, in at most {size(found['budget'])}; its plans cost {price(found['cost'], model.unit)}"
    for one in found["sub_results"]:
        variables = " ".join("?" + v for v in one["variables"])
        taken = "" if one["seconds"] is None else f", {seconds(one['seconds'])} to make"
        yield f"  {one['relation']}({variables}) of {', '.join(one['of'])}: {rows(one['rows'])} rows, {size(one['bytes'])}{taken}"
    if not found["sub_results"]:
        yield "  none"
    if found["alternatives"]:
        yield "  others, cheapest first:"
    for other in found["alternatives"]:
        cost = "-" if other["cost"] is None else price(other["cost"], model.unit)
        taken = f", {seconds(other['seconds'])} to make" if other["seconds"] else ""
        yield f"    {cost:>10}  {', '.join(other['relations'])}: {size(other['bytes'])}{taken}"


def size(count: float) -> str:
    """Bytes with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.2g} {unit}"
