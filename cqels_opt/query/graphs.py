"""``GRAPH ?g { … }``: SPARQL evaluates the group once per named graph and binds ``?g`` only afterwards.

The group is therefore read with a fresh graph variable, which is replaced by ``?g`` wherever that does not change the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from cqels_opt.query import algebra as a
from cqels_opt.query.aggregates import aggregate as aggregated
from cqels_opt.query.visible import visible


def unit(source: a.Source) -> a.Bgp:
    """The pattern of ``{ }``: one row; in a named graph, one row if the graph exists."""
    return a.Bgp((), source if a.graph_in(source) is not None else a.DefaultGraph())


def join(left: a.Algebra, right: a.Algebra) -> a.Algebra:
    """A join without redundant units."""
    if isinstance(left, a.Bgp) and not left.patterns and _anchored(right, left.source):
        return right
    if isinstance(right, a.Bgp) and not right.patterns and _anchored(left, right.source):
        return left
    return a.Join(left, right)


def _anchored(pattern: a.Algebra, source: a.Source) -> bool:
    """Whether each row of the pattern is a match in this source, so that a join with the source's unit changes nothing."""
    if a.graph_in(source) is None:
        return True
    match pattern:
        case a.Bgp(_, own):
            return own == source
        case a.Closure() as closure:
            return closure.source == source
        case a.Join(left, right):
            return _anchored(left, source) or _anchored(right, source)
        case a.Union(left, right):
            return _anchored(left, source) and _anchored(right, source)
        case a.LeftJoin(left, _) | a.Minus(left, _):
            return _anchored(left, source)
        case a.Filter(inner, _) | a.Extend(inner, _, _):
            return _anchored(inner, source)
        case _:
            return False


def over_graphs(pattern: a.Algebra, source: a.Source, inner: a.Variable, name: a.Variable) -> a.Algebra:
    """The pattern of ``GRAPH ?name``, from a group that was read with the graph variable ``inner``."""
    if not _mentions(pattern, name) or _only_joins(pattern):
        return cast(a.Algebra, _renamed(pattern, inner, name))
    return a.Join(pattern, a.Extend(a.Bgp((), source), name, inner))


def _mentions(node: Any, variable: a.Variable) -> bool:
    if isinstance(node, tuple):
        return any(_mentions(part, variable) for part in node)
    if node == variable:
        return True
    return is_dataclass(node) and any(_mentions(getattr(node, field.name), variable) for field in fields(node))


def _renamed(node: Any, old: a.Variable, new: a.Variable) -> Any:
    if node == old:
        return new
    if isinstance(node, tuple):
        return tuple(_renamed(part, old, new) for part in node)
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{field.name: _renamed(getattr(node, field.name), old, new) for field in fields(node)})
    return node


def _only_joins(pattern: a.Algebra) -> bool:
    """Whether binding a variable before or after evaluation is equivalent: only triple patterns, joins and unions."""
    match pattern:
        case a.Bgp():
            return True
        case a.Join(left, right) | a.Union(left, right):
            return _only_joins(left) and _only_joins(right)
        case _:
            return False


def minus(left: a.Algebra, right: a.Algebra, graph: a.Variable) -> a.Algebra:
    """MINUS within ``GRAPH ?g``: the graph variable does not count as shared."""
    shared = (set(visible(left)) & set(visible(right))) - {graph}
    if not shared:
        return left
    return a.Minus(left, right, () if shared & certain(left) & certain(right) else (graph,))


def group_per_key(
    each: a.Algebra,
    keys: tuple[a.Variable, ...],
    body: a.Algebra,
    made: tuple[tuple[a.Variable, a.Aggregate], ...],
    fresh: Callable[[], a.Variable],
) -> a.Algebra:
    """Aggregates of a body per key: one row for each row of ``each``, which binds the keys, even if the body has none for it."""
    inner = tuple((fresh(), aggregate) for _, aggregate in made)
    rows = fresh()
    grouped = a.Group(body, keys, (*inner, (rows, a.Aggregate("COUNT", None))))
    found: a.Algebra = a.LeftJoin(each, grouped)
    for (outer, aggregate), (variable, _) in zip(made, inner):
        of_none = aggregated(aggregate.function, aggregate.distinct, aggregate.separator)(())
        nothing: a.Expression = a.Call("COALESCE", ()) if of_none is None else a.Constant(of_none)
        found = a.Extend(found, outer, a.Call("IF", (a.Call("BOUND", (rows,)), variable, nothing)))
    return found


def certain(pattern: a.Algebra) -> set[a.Variable]:
    """Variables that every row binds."""
    match pattern:
        case a.Bgp() | a.Closure():
            return set(visible(pattern))
        case a.Join(left, right):
            return certain(left) | certain(right)
        case a.Union(left, right):
            return certain(left) & certain(right)
        case a.LeftJoin(left, _) | a.Minus(left, _):
            return certain(left)
        case a.Filter(inner, _) | a.Extend(inner, _, _) | a.Distinct(inner) | a.OrderBy(inner, _) | a.Slice(inner, _, _):
            return certain(inner)
        case a.Project(inner, variables):
            return certain(inner) & set(variables)
        case a.Group(inner, keys, _):
            return certain(inner) & set(keys)
        case a.Values(variables, rows):
            return {variable for at, variable in enumerate(variables) if all(row[at] is not None for row in rows)}
        case a.Service():
            return set()
