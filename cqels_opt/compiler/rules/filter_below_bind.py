"""A filter above a BIND moves below it, with the variable replaced by the expression."""

from __future__ import annotations

from typing import Final

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, filtered
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.late_binds import Bind, with_binds
from cqels_opt.compiler.variable_usage import exists_in, mentions, substituted
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import seeded, uses_now

LONGEST: Final = 100
"""Parts that a condition may have after the replacement: without a limit, nested BINDs double it at each level."""


def filter_below_bind(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Evaluates a condition before a BIND. An expression that fails leaves its variable unbound; reading either is an error.

    ::

        before: (filter (> ?k 1) (extend ?k (* ?b 2) (block (window w (?a :p ?b)))))
        after:  (extend ?k (* ?b 2) (filter (> (* ?b 2) 1) (block (window w (?a :p ?b)))))
    """
    match plan:
        case LogicalOperator(p.FilterNode(_, condition), [LogicalOperator(p.ExtendNode(_, variable, expression), [inner])]) if (
            context.late_binds
        ):
            below = _without(condition, (variable, expression))
            plain = not exists_in(condition) and not uses_now(condition)
            if below is not None and (below is condition or plain):
                return with_binds(context.rewrite(filtered(inner, below)), [(variable, expression)])
    return None


def _without(condition: a.Expression, bind: Bind) -> a.Expression | None:
    """The condition with the BIND's variable replaced by its expression; None where the condition must stay above the BIND."""
    variable, expression = bind
    if seeded(condition):
        return None
    if variable not in mentions(condition):
        return condition
    instant_dependent = uses_now(expression) or uses_now(condition)
    if exists_in(condition) or seeded(expression) or instant_dependent or _tests_bound(condition, variable):
        return None
    found = substituted(condition, {variable: expression})
    return found if _parts(found) <= LONGEST else None


def _tests_bound(condition: a.Expression, variable: str) -> bool:
    """Whether BOUND reads the variable: only BOUND distinguishes an unbound variable from an expression that fails."""
    if not isinstance(condition, a.Call):
        return False
    if condition.function == "BOUND":
        return condition.arguments[0] == a.Variable(variable)
    return any(_tests_bound(part, variable) for part in condition.arguments)


def _parts(expression: a.Expression) -> int:
    return 1 + sum(map(_parts, expression.arguments)) if isinstance(expression, a.Call) else 1
