"""``GRAPH ?g { … }``: SPARQL evaluates the group once in each named graph, and only then gives ``?g`` its value.

The group is therefore read with a fresh graph variable, which takes the place of ``?g`` wherever that makes no difference.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from cqels_opt.query.algebra import (
    Algebra,
    Bgp,
    Closure,
    DefaultGraph,
    Distinct,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    NamedGraph,
    OrderBy,
    Project,
    Slice,
    Source,
    Union,
    Values,
    Variable,
)
from cqels_opt.query.visible import visible


def unit(source: Source) -> Bgp:
    """The pattern of ``{ }``: one row; in a named graph, one row if it exists."""
    return Bgp((), source if isinstance(source, NamedGraph) else DefaultGraph())


def join(left: Algebra, right: Algebra) -> Algebra:
    """A join, without a unit that adds nothing."""
    if isinstance(left, Bgp) and not left.patterns and _anchored(right, left.source):
        return right
    if isinstance(right, Bgp) and not right.patterns and _anchored(left, right.source):
        return left
    return Join(left, right)


def _anchored(pattern: Algebra, source: Source) -> bool:
    """Whether each of the pattern's rows is a match in this source, so that a join with the source's unit changes nothing."""
    if not isinstance(source, NamedGraph):
        return True
    match pattern:
        case Bgp(_, own):
            return own == source
        case Closure() as closure:
            return closure.source == source
        case Join(left, right):
            return _anchored(left, source) or _anchored(right, source)
        case Union(left, right):
            return _anchored(left, source) and _anchored(right, source)
        case LeftJoin(left, _) | Minus(left, _):
            return _anchored(left, source)
        case Filter(inner, _) | Extend(inner, _, _):
            return _anchored(inner, source)
        case _:
            return False


def over_graphs(pattern: Algebra, inner: Variable, name: Variable) -> Algebra:
    """The pattern of a group, read with the graph variable ``inner``, as that of ``GRAPH ?name``."""
    if not _mentions(pattern, name) or _only_joins(pattern):
        return cast(Algebra, _renamed(pattern, inner, name))
    return Join(pattern, Extend(Bgp((), NamedGraph(inner)), name, inner))


def _mentions(node: Any, variable: Variable) -> bool:
    if isinstance(node, tuple):
        return any(_mentions(part, variable) for part in node)
    if node == variable:
        return True
    return is_dataclass(node) and any(_mentions(getattr(node, field.name), variable) for field in fields(node))


def _renamed(node: Any, old: Variable, new: Variable) -> Any:
    if node == old:
        return new
    if isinstance(node, tuple):
        return tuple(_renamed(part, old, new) for part in node)
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{field.name: _renamed(getattr(node, field.name), old, new) for field in fields(node)})
    return node


def _only_joins(pattern: Algebra) -> bool:
    """Whether a variable bound from outside means the same as one bound after: triple patterns, joins and unions alone."""
    match pattern:
        case Bgp():
            return True
        case Join(left, right) | Union(left, right):
            return _only_joins(left) and _only_joins(right)
        case _:
            return False


def minus(left: Algebra, right: Algebra, graph: Variable) -> Algebra | None:
    """MINUS within a graph variable, whose value does not count as shared; None where only single rows tell what is shared."""
    shared = (set(visible(left)) & set(visible(right))) - {graph}
    if not shared:
        return left
    return Minus(left, right) if shared & certain(left) & certain(right) else None


def certain(pattern: Algebra) -> set[Variable]:
    """Variables that are bound in every row."""
    match pattern:
        case Bgp() | Closure():
            return set(visible(pattern))
        case Join(left, right):
            return certain(left) | certain(right)
        case Union(left, right):
            return certain(left) & certain(right)
        case LeftJoin(left, _) | Minus(left, _):
            return certain(left)
        case Filter(inner, _) | Extend(inner, _, _) | Distinct(inner) | OrderBy(inner, _) | Slice(inner, _, _):
            return certain(inner)
        case Project(inner, variables):
            return certain(inner) & set(variables)
        case Group(inner, keys, _):
            return certain(inner) & set(keys)
        case Values(variables, rows):
            return {variable for at, variable in enumerate(variables) if all(row[at] is not None for row in rows)}
