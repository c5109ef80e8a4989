"""Graph patterns as text: for each node of the algebra, elements of a group that the parser reads as this node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cqels_opt.query import algebra as a
from cqels_opt.query.chains import LONG
from cqels_opt.query.printing.formulas import constraint, expression
from cqels_opt.query.printing.paths import closure
from cqels_opt.query.printing.selects import graph_of, select
from cqels_opt.query.printing.writing import Writing, found_in, predicate, term


def inside(writing: Writing, node: a.Algebra) -> str:
    """The text between the braces of a group that the parser reads as this node."""
    if (source := _elsewhere(writing, node)) is not None:
        return _placed(writing, inside(replace(writing, default=source), node), source)
    if not isinstance(node, a.Project | a.Distinct | a.Slice) and (own := _own_window(writing, node)) is not None:
        source, ending = own
        text = f"{inside(replace(writing, default=source), node)} {ending}"
        return text if isinstance(source, a.Merged) else f"{writing.opened(writing, source)} {{ {text} }}"
    if isinstance(node, a.Filter):
        return " ".join([*_elements(writing, node.input), f"FILTER {constraint(writing, node.condition)}"])
    if isinstance(node, a.Project | a.Distinct | a.Slice):
        return select(writing, node)
    return " ".join(_elements(writing, node))


def _elsewhere(writing: Writing, node: a.Algebra) -> a.Source | None:
    """The graphs in each of which a node is evaluated separately; None if the current group already ranges over them."""
    graph = next(iter(node.apart), None) if isinstance(node, a.Minus) else graph_of(node)
    if graph is None or writing.graph == graph:
        return None
    sources = writing.whole.in_graphs[graph]
    if len(sources) == 1:
        return sources[0]
    here: list[a.Source] = [*found_in(node, a.NamedGraph), *found_in(node, a.InWindow)]
    return next(source for source in here if a.graph_in(source) == graph)


def _own_window(writing: Writing, node: a.Algebra) -> tuple[a.Source, str] | None:
    """The source of a group that declares its own WINDOW, and that WINDOW; only some dialects have them."""
    if writing.ending is None or (source := writing.whole.only_source(node)) is None or source == writing.default:
        return None
    ending = writing.ending(writing, source)
    return (source, ending) if ending else None


def _elements(writing: Writing, node: a.Algebra) -> list[str]:
    """A node as elements of a group, which are read in order. An element that must end or begin a group gets its own braces.

    Chains lean to the left and may be long: down their spine without recursion.
    """
    spine: list[a.Join | a.LeftJoin | a.Minus | a.Extend] = []
    while isinstance(node, a.Join | a.LeftJoin | a.Minus | a.Extend) and not _stands_apart(writing, node):
        spine.append(node)
        node = node.input if isinstance(node, a.Extend) else node.left
    elements = _first(writing, node)
    for above in reversed(spine):
        elements += _last(writing, above)
    return elements


def _stands_apart(writing: Writing, node: a.Algebra) -> bool:
    """Whether a node has another source than the current group."""
    return _elsewhere(writing, node) is not None or _own_window(writing, node) is not None


def _first(writing: Writing, node: a.Algebra) -> list[str]:
    """The elements of a node at the beginning of a chain."""
    if _elsewhere(writing, node) is not None:
        return [inside(writing, node)]
    if not isinstance(node, a.Filter | a.Project | a.Distinct | a.Slice) and (own := _own_window(writing, node)) is not None:
        return [_braced(writing, node) if isinstance(own[0], a.Merged) else inside(writing, node)]
    match node:
        case a.Bgp(patterns, source):
            if not patterns and a.graph_in(source) is None:
                return []
            return [_placed(writing, triples(writing, patterns), source)]
        case a.Union():
            return [_alternatives(writing, node)]
        case a.Values():
            return [values(writing, node)]
        case a.Closure(source=source):
            return [_placed(writing, closure(writing, node), source)]
        case a.Service(inner, iri):
            return [f"SERVICE {writing.node(iri)} {_braced(writing, inner)}"]
        case a.Group() | a.OrderBy():
            writing.fail("a group or an order stands where only a sub-select can")
        case _:
            return [_braced(writing, node)]


def _last(writing: Writing, node: a.Join | a.LeftJoin | a.Minus | a.Extend) -> list[str]:
    """The elements that a node adds to those of its left side."""
    match node:
        case a.Join(left, right):
            return _joined(writing, left, right)
        case a.LeftJoin(_, right, condition):
            optional = _braced(writing, right) if isinstance(right, a.Filter) else inside(writing, right)
            if condition is not None:
                apart = isinstance(right, a.Filter | a.Project | a.Distinct | a.Slice) or _own_window(writing, right) is not None
                optional = _braced(writing, right) if apart else optional
                optional = f"{optional} FILTER {constraint(writing, condition)}"
            return [f"OPTIONAL {{ {optional} }}"]
        case a.Minus(_, right):
            return [f"MINUS {_braced(writing, right)}"]
        case a.Extend(_, variable, value):
            return [f"BIND({expression(writing, value)} AS {writing.node(variable)})"]


def _alternatives(writing: Writing, node: a.Union) -> str:
    """``{ … } UNION { … } UNION { … }``, also a chain; a left side with another source is one element."""
    if len(flat := _all_alternatives(writing, node)) > LONG:
        return " UNION ".join(_braced(writing, part) for part in flat)
    texts: list[str] = []
    first: a.Algebra = node
    while isinstance(first, a.Union) and (first is node or not _stands_apart(writing, first)):
        texts.append(_braced(writing, first.right))
        first = first.left
    texts.append(_first(writing, first)[0] if isinstance(first, a.Union) else _braced(writing, first))
    return " UNION ".join(reversed(texts))


def _all_alternatives(writing: Writing, node: a.Union) -> list[a.Algebra]:
    """The branches of a tree of UNIONs, from left to right."""
    found, waiting = list[a.Algebra](), [node.right, node.left]
    while waiting:
        part = waiting.pop()
        if isinstance(part, a.Union) and not _stands_apart(writing, part):
            waiting += [part.right, part.left]
        else:
            found.append(part)
    return found


def _placed(writing: Writing, text: str, source: a.Source) -> str:
    """Triples, inside the words that name their source."""
    if source == writing.default:
        return text
    if isinstance(source, a.InWindow) and source.graph is not None:
        text = f"GRAPH {writing.node(source.graph)} {{ {text} }}"
    return f"{writing.opened(writing, source)} {{ {text} }}"


def _joined(writing: Writing, left: a.Algebra, right: a.Algebra) -> list[str]:
    """The right side of a join as one element. Without braces it could merge with the triples before it, or be read as several."""
    if (
        isinstance(right, a.Closure | a.Bgp)
        and (isinstance(right, a.Closure) or right.patterns)
        and not (right.source == writing.default and _ends_in_triples(writing, left))
    ):
        return _elements(writing, right)
    return _elements(writing, right) if isinstance(right, a.Values | a.Union) else [_braced(writing, right)]


def _ends_in_triples(writing: Writing, node: a.Algebra) -> bool:
    last = node.right if isinstance(node, a.Join) else node
    return isinstance(last, a.Bgp | a.Closure) and last.source == writing.default


def _braced(writing: Writing, node: a.Algebra) -> str:
    return f"{{ {inside(writing, node)} }}"


def triples(writing: Writing, patterns: Sequence[a.TriplePattern]) -> str:
    """The triple patterns of a basic graph pattern, or of a template."""
    return " ".join(f"{writing.node(t.s)} {predicate(writing, t.p)} {writing.node(t.o)} ." for t in patterns)


def values(writing: Writing, node: a.Values) -> str:
    """Inline data."""
    head = " ".join(map(writing.node, node.variables))
    rows = (" ".join("UNDEF" if cell is None else term(cell) for cell in row) for row in node.rows)
    return f"VALUES ({head}) {{ {' '.join(f'({row})' for row in rows)} }}"
