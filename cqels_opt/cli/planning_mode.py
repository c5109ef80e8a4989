"""The optimizer's mode of a command."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.cli.options import RunOptions
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.planner.planner_options import PlannerOptions


def mode(options: RunOptions) -> PlannerOptions:
    """The optimizer's mode, on a machine of one task. ``--plan spark`` leaves the joins to Spark, in the order that is written."""
    by_spark = options.plan == "spark"
    plan = "first" if by_spark else options.plan
    how = plan_mode(plan, options.fixed, options.cost_model, options.constants, options.joins, options.filters)
    return replace(how, mode="spark") if by_spark else how
