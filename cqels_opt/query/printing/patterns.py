"""Graph patterns as text: for each node of the algebra the elements of a group that are read as it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cqels_opt.query.algebra import (
    Algebra,
    Bgp,
    Closure,
    Distinct,
    Extend,
    Filter,
    Group,
    InWindow,
    Join,
    LeftJoin,
    Merged,
    Minus,
    NamedGraph,
    OrderBy,
    Project,
    Slice,
    Source,
    TriplePattern,
    Union,
    Values,
    graph_in,
)
from cqels_opt.query.printing.formulas import constraint, expression
from cqels_opt.query.printing.paths import closure
from cqels_opt.query.printing.selects import graph_of, select
from cqels_opt.query.printing.writing import Writing, found_in, only_source, predicate, term


def inside(writing: Writing, node: Algebra) -> str:
    """What stands between the braces of a group that is read as a node."""
    if (source := _elsewhere(writing, node)) is not None:
        return _placed(writing, inside(replace(writing, default=source), node), source)
    if not isinstance(node, Project | Distinct | Slice) and (own := _own_window(writing, node)) is not None:
        source, ending = own
        text = f"{inside(replace(writing, default=source), node)} {ending}"
        return text if isinstance(source, Merged) else f"{writing.opened(writing, source)} {{ {text} }}"
    if isinstance(node, Filter):
        return " ".join([*_elements(writing, node.input), f"FILTER {constraint(writing, node.condition)}"])
    if isinstance(node, Project | Distinct | Slice):
        return select(writing, node)
    return " ".join(_elements(writing, node))


def _elsewhere(writing: Writing, node: Algebra) -> Source | None:
    """The graphs in each of which a node is evaluated by itself, where the group in hand is not matched in them."""
    graph = next(iter(node.apart), None) if isinstance(node, Minus) else graph_of(node)
    if graph is None or writing.graph == graph:
        return None
    sources: list[Source] = [*found_in(node, NamedGraph), *found_in(node, InWindow)]
    return next(source for source in sources if graph_in(source) == graph)


def _own_window(writing: Writing, node: Algebra) -> tuple[Source, str] | None:
    """The source of a group with a WINDOW of its own, and that WINDOW; only some dialects have them."""
    if writing.ending is None or (source := only_source(node)) is None or source == writing.default:
        return None
    ending = writing.ending(writing, source)
    return (source, ending) if ending else None


def _elements(writing: Writing, node: Algebra) -> list[str]:
    """A node as elements of a group that are read one after the other; what ends a group, or begins one, gets braces of its own."""
    if _elsewhere(writing, node) is not None:
        return [inside(writing, node)]
    if not isinstance(node, Filter | Project | Distinct | Slice) and (own := _own_window(writing, node)) is not None:
        return [_braced(writing, node) if isinstance(own[0], Merged) else inside(writing, node)]
    match node:
        case Bgp(patterns, source):
            if not patterns and graph_in(source) is None:
                return []
            return [_placed(writing, triples(writing, patterns), source)]
        case Join(left, right):
            return [*_elements(writing, left), *_joined(writing, left, right)]
        case LeftJoin(left, right, condition):
            optional = _braced(writing, right) if isinstance(right, Filter) else inside(writing, right)
            if condition is not None:
                apart = isinstance(right, Filter | Project | Distinct | Slice) or _own_window(writing, right) is not None
                optional = _braced(writing, right) if apart else optional
                optional = f"{optional} FILTER {constraint(writing, condition)}"
            return [*_elements(writing, left), f"OPTIONAL {{ {optional} }}"]
        case Minus(left, right):
            return [*_elements(writing, left), f"MINUS {_braced(writing, right)}"]
        case Extend(inner, variable, value):
            return [*_elements(writing, inner), f"BIND({expression(writing, value)} AS {writing.node(variable)})"]
        case Union(left, right):
            first = _elements(writing, left)[0] if isinstance(left, Union) else _braced(writing, left)
            return [f"{first} UNION {_braced(writing, right)}"]
        case Values():
            return [values(writing, node)]
        case Filter() | Project() | Distinct() | Slice():
            return [_braced(writing, node)]
        case Closure(source=source):
            return [_placed(writing, closure(writing, node), source)]
        case Group() | OrderBy():
            writing.fail("a group or an order stands where only a sub-select can")


def _placed(writing: Writing, text: str, source: Source) -> str:
    """Triples where they are matched."""
    if source == writing.default:
        return text
    if isinstance(source, InWindow) and source.graph is not None:
        text = f"GRAPH {writing.node(source.graph)} {{ {text} }}"
    return f"{writing.opened(writing, source)} {{ {text} }}"


def _joined(writing: Writing, left: Algebra, right: Algebra) -> list[str]:
    """The right side of a join, as one element: it would run together with triples before it, or be read as more than one."""
    if (
        isinstance(right, Closure | Bgp)
        and (isinstance(right, Closure) or right.patterns)
        and not (right.source == writing.default and _ends_in_triples(writing, left))
    ):
        return _elements(writing, right)
    return _elements(writing, right) if isinstance(right, Values | Union) else [_braced(writing, right)]


def _ends_in_triples(writing: Writing, node: Algebra) -> bool:
    last = node.right if isinstance(node, Join) else node
    return isinstance(last, Bgp | Closure) and last.source == writing.default


def _braced(writing: Writing, node: Algebra) -> str:
    return f"{{ {inside(writing, node)} }}"


def triples(writing: Writing, patterns: Sequence[TriplePattern]) -> str:
    """The triple patterns of a basic graph pattern, or of a template."""
    return " ".join(f"{writing.node(t.s)} {predicate(writing, t.p)} {writing.node(t.o)} ." for t in patterns)


def values(writing: Writing, node: Values) -> str:
    """Inline data."""
    head = " ".join(map(writing.node, node.variables))
    rows = (" ".join("UNDEF" if cell is None else term(cell) for cell in row) for row in node.rows)
    return f"VALUES ({head}) {{ {' '.join(f'({row})' for row in rows)} }}"
