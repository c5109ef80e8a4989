"""The optimizer: query graph, statistics it reads, memo, costs, plans. Pure Python and numpy: no Spark, no files, no clock.

Start with :class:`Optimizer`. A block of a query is a :class:`QueryGraph` of relations; for every *delta source* (a stream
occurrence whose new rows are joined with the content of all others) :meth:`Optimizer.choose` gives the plan that is cheapest
under the current :class:`Statistics`.
"""

from cqels_opt.plans.base_estimates import Assumptions
from cqels_opt.plans.cost import Constants, CostModel, JoinOperator
from cqels_opt.plans.cost_models.paper import PaperCost
from cqels_opt.plans.cost_models.seconds import SecondsCost
from cqels_opt.plans.delta import DeltaRule
from cqels_opt.plans.explain import deltas, dot
from cqels_opt.plans.explain_text import q_error, text
from cqels_opt.plans.optimizer import MODES, Optimizer
from cqels_opt.plans.plan import (
    Cut,
    Join,
    Multiway,
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
from cqels_opt.plans.plan_changes import Reason
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.plan_text import parse_plan, parse_planned, parse_plans
from cqels_opt.plans.query_graph import FilterNode, GraphError, JoinEdge, JoinKind, QueryGraph, RelationNode
from cqels_opt.plans.reoptimization_budget import ReoptimizationBudget
from cqels_opt.plans.sampling import SampledCardinality, Sampler
from cqels_opt.plans.statistics import KnownStatistics, StatisticKey, Statistics
from cqels_opt.plans.switching_rule import NEAR_TIE, WORTH
from cqels_opt.plans.validity_ranges import ValidityRange

__all__ = [
    "MODES",
    "NEAR_TIE",
    "WORTH",
    "Assumptions",
    "Constants",
    "CostModel",
    "Cut",
    "DeltaRule",
    "FilterNode",
    "GraphError",
    "Join",
    "JoinEdge",
    "JoinKind",
    "JoinOperator",
    "KnownStatistics",
    "Multiway",
    "Optimizer",
    "PaperCost",
    "Plan",
    "PlanChoice",
    "PlanError",
    "PlanOperator",
    "Probe",
    "QueryGraph",
    "Ranked",
    "Reason",
    "RelationNode",
    "ReoptimizationBudget",
    "SampledCardinality",
    "Sampler",
    "Scan",
    "SecondsCost",
    "Split",
    "StatisticKey",
    "Statistics",
    "ValidityRange",
    "check",
    "deltas",
    "dot",
    "filters",
    "operators",
    "parse_plan",
    "parse_planned",
    "parse_plans",
    "q_error",
    "text",
]
