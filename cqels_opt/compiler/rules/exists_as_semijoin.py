"""FILTER (NOT) EXISTS over static data is a semijoin or antijoin in the block of its input."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.compiler.decorrelation import open_filters, separable
from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan
from cqels_opt.compiler.plan_variables import mentioned
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.outer_joins import place_unit
from cqels_opt.compiler.rules.timestamps import calls_timestamp
from cqels_opt.compiler.variable_usage import conjunction, moves
from cqels_opt.operators import compiled_query as p
from cqels_opt.plans import JoinKind
from cqels_opt.query import algebra as a


def exists_as_semijoin(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Makes the pattern of an EXISTS a unit of the block, where it can be evaluated independently of the outside rows.

    ::

        before: (filter (notexists (filter (> ?c ?a) (bgp (?b :q ?c)))) (block (window w (?a :p ?b))))
        after:  (block (window w (?a :p ?b)) (anti (block (?b :q ?c)) (> ?c ?a)))
    """
    match plan:
        case LogicalOperator(p.FilterNode(_, condition), [inner]):
            test = _whole_exists(condition)
            if test is None or moves(test.pattern):
                return None
            pattern, conditions = open_filters(test.pattern)
            if separable(pattern, mentioned(inner)) and not any(map(calls_timestamp, conditions)):
                kind: JoinKind = "anti" if test.negated else "semi"
                return place_unit(kind, inner, context.plan(pattern), conjunction(conditions), context)
    return None


def _whole_exists(condition: a.Expression) -> a.Exists | None:
    """The condition, if it is EXISTS or NOT EXISTS and nothing else."""
    if isinstance(condition, a.Call) and condition.function == "!" and isinstance(test := condition.arguments[0], a.Exists):
        return replace(test, negated=not test.negated)
    return condition if isinstance(condition, a.Exists) else None
