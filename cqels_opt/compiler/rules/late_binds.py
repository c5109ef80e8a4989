"""BINDs at the top of a plan, which rules move up (SPARQL 1.1 §18.2.2.6, Extend).

A BIND only adds a column. Operators that do not read this column can be evaluated before it: then it does not split a block in two, and
its expression is evaluated on fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from cqels_opt.compiler.logical_blocks import HOLE, LogicalOperator, LogicalPlan
from cqels_opt.compiler.plan_variables import certain, mentioned
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import seeded
from cqels_opt.query.scope import variables as read_by

Bind: TypeAlias = "tuple[str, a.Expression]"
"""A variable and its expression."""


def strip_binds(plan: LogicalPlan) -> tuple[LogicalPlan, list[Bind]]:
    """The plan below the BINDs at its top, and these BINDs, innermost first."""
    binds: list[Bind] = []
    while isinstance(plan, LogicalOperator) and isinstance(plan.node, p.ExtendNode):
        binds.append((plan.node.variable, plan.node.expression))
        (plan,) = plan.inputs
    return plan, binds[::-1]


def with_binds(plan: LogicalPlan, binds: Iterable[Bind]) -> LogicalPlan:
    """The plan below BINDs, the first innermost."""
    for variable, expression in binds:
        plan = LogicalOperator(p.ExtendNode(HOLE, variable, expression), [plan])
    return plan


def split_late_binds(plan: LogicalPlan, other: LogicalPlan) -> tuple[LogicalPlan, list[Bind]]:
    """One side of a join without the BINDs that may be evaluated after the join with the other side, and those BINDs.

    ``Extend(A) ⋈ B = Extend(A ⋈ B)`` where B does not name the variable, and where A binds each variable of the expression on every row
    or B does not name it: then the expression has the same value above the join.
    """
    base, binds = strip_binds(plan)
    names = mentioned(other)
    late: list[Bind] = []
    while binds:
        variable, expression = binds[-1]
        if variable in names or seeded(expression) or not read_by(expression) & names <= certain(base):
            break
        late.insert(0, binds.pop())
    return with_binds(base, binds), late
