"""The optimizer: query graph, statistics it reads, memo, costs, plans. Pure Python and numpy: no Spark, no files, no clock.

Start with :class:`Optimizer`. A block of a query is a :class:`QueryGraph` of relations; for every *delta source* (a stream
occurrence whose new rows are joined with the content of all others) :meth:`Optimizer.choose` gives the plan that is cheapest
under the :class:`Statistics` of now.
"""

from cqels_opt.plans.choose import MODES, NEAR_TIE, Choice, Optimizer
from cqels_opt.plans.cost import Constants, CostModel, Operator, PaperCost, SecondsCost
from cqels_opt.plans.delta import occurrence_order
from cqels_opt.plans.explain import deltas, dot, q_error, text
from cqels_opt.plans.leaves import Assumptions
from cqels_opt.plans.pacing import Pace
from cqels_opt.plans.plan import (
    Cut,
    Join,
    Plan,
    PlanError,
    PlanOperator,
    Probe,
    Scan,
    Split,
    check,
    filters,
    operators,
)
from cqels_opt.plans.plan_text import parse_plan, parse_planned, parse_plans, plans_text
from cqels_opt.plans.query_graph import Filter, GraphError, JoinEdge, JoinKind, QueryGraph, Relation
from cqels_opt.plans.ranking import Ranked
from cqels_opt.plans.reasons import Reason
from cqels_opt.plans.statistics import KnownStatistics, StatisticKey, Statistics
from cqels_opt.plans.validity import Hinge
from cqels_opt.plans.walks import Walk, Walked

__all__ = [
    "MODES",
    "NEAR_TIE",
    "Assumptions",
    "Choice",
    "Constants",
    "CostModel",
    "Cut",
    "Filter",
    "GraphError",
    "Hinge",
    "Join",
    "JoinEdge",
    "JoinKind",
    "KnownStatistics",
    "Operator",
    "Optimizer",
    "Pace",
    "PaperCost",
    "Plan",
    "PlanError",
    "PlanOperator",
    "Probe",
    "QueryGraph",
    "Ranked",
    "Reason",
    "Relation",
    "Scan",
    "SecondsCost",
    "Split",
    "StatisticKey",
    "Statistics",
    "Walk",
    "Walked",
    "check",
    "deltas",
    "dot",
    "filters",
    "occurrence_order",
    "operators",
    "parse_plan",
    "parse_planned",
    "parse_plans",
    "plans_text",
    "q_error",
    "text",
]
