"""``GRAPH ?g { … }``: SPARQL evaluates the group once per named graph and binds ``?g`` only afterwards.

The group is therefore read with a fresh graph variable, which is replaced by ``?g`` wherever that does not change the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from cqels_opt.query.aggregates import aggregate as aggregated
from cqels_opt.query.algebra import (
    Aggregate,
    Algebra,
    Bgp,
    Call,
    Closure,
    Constant,
    DefaultGraph,
    Distinct,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    Project,
    Service,
    Slice,
    Source,
    Union,
    Values,
    Variable,
    graph_in,
)
from cqels_opt.query.visible import visible


def unit(source: Source) -> Bgp:
    """The pattern of ``{ }``: one row; in a named graph, one row if the graph exists."""
    return Bgp((), source if graph_in(source) is not None else DefaultGraph())


def join(left: Algebra, right: Algebra) -> Algebra:
    """A join without redundant units."""
    if isinstance(left, Bgp) and not left.patterns and _anchored(right, left.source):
        return right
    if isinstance(right, Bgp) and not right.patterns and _anchored(left, right.source):
        return left
    return Join(left, right)


def _anchored(pattern: Algebra, source: Source) -> bool:
    """Whether each row of the pattern is a match in this source, so that a join with the source's unit changes nothing."""
    if graph_in(source) is None:
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


def over_graphs(pattern: Algebra, source: Source, inner: Variable, name: Variable) -> Algebra:
    """The pattern of ``GRAPH ?name``, from a group that was read with the graph variable ``inner``."""
    if not _mentions(pattern, name) or _only_joins(pattern):
        return cast(Algebra, _renamed(pattern, inner, name))
    return Join(pattern, Extend(Bgp((), source), name, inner))


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
    """Whether binding a variable before or after evaluation is equivalent: only triple patterns, joins and unions."""
    match pattern:
        case Bgp():
            return True
        case Join(left, right) | Union(left, right):
            return _only_joins(left) and _only_joins(right)
        case _:
            return False


def minus(left: Algebra, right: Algebra, graph: Variable) -> Algebra:
    """MINUS within ``GRAPH ?g``: the graph variable does not count as shared."""
    shared = (set(visible(left)) & set(visible(right))) - {graph}
    if not shared:
        return left
    return Minus(left, right, () if shared & certain(left) & certain(right) else (graph,))


def group_per_graph(
    body: Algebra,
    source: Source,
    graph: Variable,
    made: tuple[tuple[Variable, Aggregate], ...],
    fresh: Callable[[], Variable],
) -> Algebra:
    """Aggregation without GROUP BY within ``GRAPH ?g``: one group per graph, also for a graph without matches."""
    return group_per_key(Bgp((), source), (graph,), body, made, fresh)


def group_per_key(
    each: Algebra,
    keys: tuple[Variable, ...],
    body: Algebra,
    made: tuple[tuple[Variable, Aggregate], ...],
    fresh: Callable[[], Variable],
) -> Algebra:
    """Aggregates of a body per key: one row for each row of ``each``, which binds the keys, even if the body has none for it."""
    inner = tuple((fresh(), aggregate) for _, aggregate in made)
    rows = fresh()
    grouped = Group(body, keys, (*inner, (rows, Aggregate("COUNT", None))))
    found: Algebra = LeftJoin(each, grouped)
    for (outer, aggregate), (variable, _) in zip(made, inner):
        of_none = aggregated(aggregate.function, aggregate.distinct, aggregate.separator)(())
        nothing: Expression = Call("COALESCE", ()) if of_none is None else Constant(of_none)
        found = Extend(found, outer, Call("IF", (Call("BOUND", (rows,)), variable, nothing)))
    return found


def certain(pattern: Algebra) -> set[Variable]:
    """Variables that every row binds."""
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
        case Service():
            return set()
