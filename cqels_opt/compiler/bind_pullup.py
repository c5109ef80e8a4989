"""BINDs late: where an Extend may move up, and where a filter may move below it (SPARQL 1.1 §18.2.2.6, Extend).

A BIND only adds a column, so what does not read that column does not mind when it is made. Moved above the joins around it, it no longer
parts a block in two, and it is evaluated once, on the rows that are left. A filter that reads it takes its expression instead: an
expression that fails leaves the variable unbound, and what reads an unbound variable fails as well, whatever function it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeGuard

from cqels_opt.compiler.logical_blocks import Above, LogicalBlock, Normal, expression_renamed, mentioned, renamed
from cqels_opt.compiler.variable_usage import exists_in, mentions
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import seeded, uses_now
from cqels_opt.query.scope import variables as read_by

Bind: TypeAlias = "tuple[str, a.Expression]"
"""A variable, and what it is bound to."""

LONGEST = 100
"""Parts of an expression that may take the place of a variable: nested BINDs could otherwise grow without bound."""


def strip_binds(normal: Normal) -> tuple[Normal, list[Bind]]:
    """What lies below the BINDs at the top of a part, and those, the innermost first."""
    binds: list[Bind] = []
    while isinstance(normal, Above) and isinstance(normal.node, p.ExtendNode):
        binds.append((normal.node.variable, normal.node.expression))
        (normal,) = normal.inputs
    return normal, binds[::-1]


def bound(normal: Normal, binds: Iterable[Bind]) -> Normal:
    """The BINDs on top of a part, the first innermost."""
    for variable, expression in binds:
        normal = Above(p.ExtendNode(p.ValuesNode((), ()), variable, expression), [normal])
    return normal


def certain(normal: Normal) -> set[str]:
    """Variables that a part binds on every row."""
    match normal:
        case LogicalBlock():
            return normal.certain
        case Above(p.ClosureNode() as closure):
            return set(closure.variables)
        case Above(p.JoinNode(), inputs):
            return set().union(*map(certain, inputs))
        case Above(p.UnionNode(), inputs) if inputs:
            return set.intersection(*map(certain, inputs))
        case Above(
            p.ExtendNode()
            | p.FilterNode()
            | p.LeftJoinNode()
            | p.MinusNode()
            | p.ExistsNode()
            | p.DistinctNode()
            | p.OrderNode(),
            inputs,
        ):
            return certain(inputs[0])
        case Above(p.ProjectNode(_, variables), inputs):
            return certain(inputs[0]) & set(variables)
    return set()


def stands_above(normal: Normal, names: Collection[str]) -> TypeGuard[Above]:
    """Whether an OPTIONAL or MINUS at the top of a part may stay there while what names these variables is done on its left side.

    ``(L ⟕ M) ⋈ B = (L ⋈ B) ⟕ M``, and so for a filter in the place of B and for MINUS, where M and its condition share no variable
    with B but those that L binds on every row: then B neither reads what M adds nor changes what M matches.
    """
    if not isinstance(normal, Above) or not isinstance(normal.node, p.LeftJoinNode | p.MinusNode):
        return False
    left, right, *_ = normal.inputs
    condition = normal.node.condition if isinstance(normal.node, p.LeftJoinNode) else None
    if condition is not None and seeded(condition):
        return False
    return set(names) & (mentioned(right) | normal.node.own_variables) <= certain(left)


def lifted(normal: Normal, other: Normal) -> tuple[Normal, list[Bind]]:
    """A side of a join without the BINDs that may be done after the join with the other side, and those.

    ``Extend(A) ⋈ B = Extend(A ⋈ B)`` where B does not name the variable, and where whatever the expression reads is bound in A on
    every row or not named in B at all: then it reads the same above the join.
    """
    base, binds = strip_binds(normal)
    names = mentioned(other)
    late: list[Bind] = []
    while binds:
        variable, expression = binds[-1]
        if variable in names or seeded(expression) or not read_by(expression) & names <= certain(base):
            break
        late.insert(0, binds.pop())
    return bound(base, binds), late


def without(condition: a.Expression, bind: Bind) -> a.Expression | None:
    """A condition as it is below a BIND: the expression in the place of the variable where it is read; None: it must stay above."""
    variable, expression = bind
    if seeded(condition):
        return None
    if variable not in mentions(condition):
        return condition
    if (
        exists_in(condition)
        or seeded(expression)
        or uses_now(expression)
        or uses_now(condition)
        or _tests_bound(condition, variable)
    ):
        return None
    found = _replaced(condition, variable, expression)
    return found if _parts(found) <= LONGEST else None


def _tests_bound(condition: a.Expression, variable: str) -> bool:
    """Whether BOUND looks at the variable: it alone tells an unbound variable from an expression that fails."""
    if not isinstance(condition, a.Call):
        return False
    if condition.function == "BOUND":
        return condition.arguments[0] == a.Variable(variable)
    return any(_tests_bound(part, variable) for part in condition.arguments)


def _replaced(condition: a.Expression, variable: str, expression: a.Expression) -> a.Expression:
    if isinstance(condition, a.Variable):
        return expression if condition.name == variable else condition
    if isinstance(condition, a.Call):
        return a.Call(condition.function, tuple(_replaced(part, variable, expression) for part in condition.arguments))
    return condition


def _parts(expression: a.Expression) -> int:
    return 1 + sum(map(_parts, expression.arguments)) if isinstance(expression, a.Call) else 1


def projected(draft: LogicalBlock, binds: Sequence[Bind], variables: Collection[str], hidden_as: str) -> Normal:
    """A projection of BINDs over a draft: what is not projected has a name that no one else knows, or is not made at all.

    ``hidden_as`` ends the names.
    """
    wanted = set(variables)
    kept: list[Bind] = []
    for variable, expression in reversed(binds):
        if variable in wanted or any(variable in read_by(e) for _, e in kept):
            kept.insert(0, (variable, expression))
    makes = draft.variables | {v for v, _ in kept}
    reads = {v for _, e in kept for v in read_by(e)}
    hidden: Mapping[str, str] = {v: f"{v}{hidden_as}" for v in sorted((makes - wanted) | (reads - makes))}
    return bound(renamed(draft, hidden), [(hidden.get(v, v), expression_renamed(e, hidden)) for v, e in kept])
