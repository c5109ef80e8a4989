"""Variable scope: the variables that a pattern makes visible (SPARQL 1.1 §18.2.1)."""

from __future__ import annotations

from cqels_opt.query import algebra as a


def visible(pattern: a.Algebra) -> tuple[a.Variable, ...]:
    """The variables that a pattern can bind, in order of appearance; includes blank nodes (``_:b``), which no query can name."""
    found: dict[a.Variable, None] = {}
    pending: list[a.Algebra] = [pattern]
    while pending:
        match pending.pop():
            case a.Bgp(patterns, source):
                if isinstance(graph := a.graph_in(source), a.Variable):
                    found[graph] = None
                found.update((variable, None) for triple in patterns for variable in triple.variables)
            case a.Closure() as closure:
                found.update((variable, None) for variable in closure.ends)
            case a.Join(left, right) | a.LeftJoin(left, right) | a.Union(left, right):
                pending += [right, left]
            case a.Minus(left, _):
                pending.append(left)
            case a.Extend(inner, variable, _):
                # Its variable follows those of its input; an empty Values carries it.
                pending += [a.Values((variable,), ()), inner]
            case a.Values(variables, _) | a.Project(_, variables):
                found.update((variable, None) for variable in variables)
            case a.Group(_, keys, aggregates):
                found.update((variable, None) for variable in (*keys, *(variable for variable, _ in aggregates)))
            case a.Filter(inner, _) | a.Distinct(inner) | a.OrderBy(inner, _) | a.Slice(inner, _, _) | a.Service(inner, _):
                pending.append(inner)
    return tuple(found)


def nameable(variables: tuple[a.Variable, ...]) -> tuple[a.Variable, ...]:
    """The variables that a query can write: no blank nodes, no fresh variables."""
    return tuple(variable for variable in variables if not variable.name.startswith((".", "_:")))
