"""The variables that a part of the algebra names, and whether its rows can change with time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import reduce

from cqels_opt.query import algebra as a
from cqels_opt.query.scope import seeded, uses_now
from cqels_opt.query.visible import nameable, visible


def written_in(pattern: a.Algebra) -> tuple[str, ...]:
    """The visible variables of a pattern that a query can write, sorted."""
    return tuple(sorted(v.name for v in nameable(visible(pattern))))


def counts_whole_rows(group: a.Group) -> bool:
    """Whether a group has COUNT(DISTINCT *)."""
    return any(spec.distinct and spec.argument is None for _, spec in group.aggregates)


def mentions(node: object) -> Counter[str]:
    """How often a part of the algebra names each variable. An operator that reads whole rows names each variable of its input once."""
    found = Counter[str]()
    _mention(node, found)
    return found


def _mention(node: object, found: Counter[str]) -> None:
    """Counts into one counter: merging a counter per level would take quadratic time."""
    if isinstance(node, a.Variable):
        found[node.name] += 1
    elif isinstance(node, tuple):
        for part in node:
            _mention(part, found)
    elif is_dataclass(node):
        for part in fields(node):
            _mention(getattr(node, part.name), found)
        if (rows := _whole_rows(node)) is not None:
            found.update(written_in(rows))


def _whole_rows(node: object) -> a.Algebra | None:
    """The pattern whose rows an operator reads with all their variables: for the order of ties, for COUNT(DISTINCT *), for an operator of a
    plugin, and where it calls RAND(), BNODE() or their like."""
    match node:
        case a.OrderBy(inner) | a.Service(inner):
            return inner
        case a.Group(inner, _, aggregates):
            drawn = any(spec.argument is not None and seeded(spec.argument) for _, spec in aggregates)
            return inner if drawn or counts_whole_rows(node) else None
        case a.Extend(inner, _, expression) | a.Filter(inner, expression):
            return inner if seeded(expression) else None
        case a.LeftJoin(_, _, condition):
            return node if condition is not None and seeded(condition) else None
    return None


def moves(node: object) -> bool:
    """Whether the rows of a part of the algebra can change with time: it reads a window, or calls NOW() or a random function."""
    if isinstance(node, a.InWindow | a.Merged):
        return True
    if isinstance(node, a.Call) and uses_now(node):
        return True
    if isinstance(node, tuple):
        return any(map(moves, node))
    return is_dataclass(node) and any(moves(getattr(node, f.name)) for f in fields(node))


def exists_in(expression: a.Expression) -> a.Exists | None:
    """The first EXISTS of an expression, or None."""
    if isinstance(expression, a.Exists):
        return expression
    inside = expression.arguments if isinstance(expression, a.Call) else ()
    return next(filter(None, map(exists_in, inside)), None)


def conjunction(conditions: Sequence[a.Expression]) -> a.Expression | None:
    """The conjunction of conditions; None where there are none."""
    return reduce(lambda left, right: a.Call("&&", (left, right)), conditions) if conditions else None


def substituted(expression: a.Expression, values: Mapping[str, a.Expression]) -> a.Expression:
    """The expression with some of its variables replaced."""
    if isinstance(expression, a.Variable):
        return values.get(expression.name, expression)
    if isinstance(expression, a.Call):
        return replace(expression, arguments=tuple(substituted(part, values) for part in expression.arguments))
    return expression
