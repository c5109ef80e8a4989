"""Variable scope: the variables that a pattern makes visible (SPARQL 1.1 §18.2.1)."""

from __future__ import annotations

from cqels_opt.query.algebra import (
    Algebra,
    Bgp,
    Closure,
    Distinct,
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
    Union,
    Values,
    Variable,
    graph_in,
)


def visible(pattern: Algebra) -> tuple[Variable, ...]:
    """The variables that a pattern can bind, in order of appearance; includes blank nodes (``_:b``), which no query can name."""
    found: dict[Variable, None] = {}
    pending: list[Algebra] = [pattern]
    while pending:
        match pending.pop():
            case Bgp(patterns, source):
                if isinstance(graph := graph_in(source), Variable):
                    found[graph] = None
                found.update((variable, None) for triple in patterns for variable in triple.variables)
            case Closure() as closure:
                found.update((variable, None) for variable in closure.ends)
            case Join(left, right) | LeftJoin(left, right) | Union(left, right):
                pending += [right, left]
            case Minus(left, _):
                pending.append(left)
            case Extend(inner, variable, _):
                # Its variable follows those of its input; an empty Values carries it.
                pending += [Values((variable,), ()), inner]
            case Values(variables, _) | Project(_, variables):
                found.update((variable, None) for variable in variables)
            case Group(_, keys, aggregates):
                found.update((variable, None) for variable in (*keys, *(variable for variable, _ in aggregates)))
            case Filter(inner, _) | Distinct(inner) | OrderBy(inner, _) | Slice(inner, _, _) | Service(inner, _):
                pending.append(inner)
    return tuple(found)


def nameable(variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """The variables that a query can write: no blank nodes, no fresh variables."""
    return tuple(variable for variable in variables if not variable.name.startswith((".", "_:")))
