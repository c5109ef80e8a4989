"""Property paths as text: what repeats, and negated sets. All else of a path is patterns, which are written as such."""

from __future__ import annotations

from typing import TypeAlias

from cqels_opt.query.algebra import Algebra, Bgp, Call, Closure, Constant, Filter, Join, Node, Source, Union, Variable
from cqels_opt.query.printing.writing import Writing, predicate, term

Edge: TypeAlias = tuple[Node, str, Node]


def path_pattern(writing: Writing, node: Algebra) -> tuple[str, Source] | None:
    """A node that only a path can be read as, with its source; None for any other."""
    if isinstance(node, Closure):
        return _triple(writing, (node.start, _repeated(writing, node), node.end)), node.source
    if isinstance(node, Filter) and isinstance(node.input, Bgp) and (edge := _past(node)) is not None:
        return _triple(writing, edge), node.input.source
    return None


def _triple(writing: Writing, edge: Edge) -> str:
    return f"{writing.node(edge[0])} {edge[1]} {writing.node(edge[2])} ."


def _repeated(writing: Writing, node: Closure) -> str:
    sign = ("*" if node.many else "?") if node.nodes is not None else "+"
    return f"({_path(writing, node.step, node.here, node.there)}){sign}"


def _path(writing: Writing, step: Algebra, here: Node, there: Node) -> str:
    """The path that a step is between its ends: its parts in the order in which they meet, some of them backwards."""
    waiting, at, found = _edges(writing, step, here, there), here, list[str]()
    while waiting:
        edge = next((edge for edge in waiting if at in (edge[0], edge[2])), None)
        if edge is None:
            writing.fail("the steps of a path do not follow on each other")
        waiting.remove(edge)
        start, text, end = edge
        found.append(text if start == at else f"^({text})")
        at = end if start == at else start
    return "/".join(found)


def _edges(writing: Writing, step: Algebra, here: Node, there: Node) -> list[Edge]:
    match step:
        case Bgp(patterns):
            return [(t.s, predicate(writing, t.p), t.o) for t in patterns]
        case Join(left, right):
            return [*_edges(writing, left, here, there), *_edges(writing, right, here, there)]
        case Closure() as closure:
            return [(closure.start, _repeated(writing, closure), closure.end)]
        case Filter() if (edge := _past(step)) is not None:
            return [edge]
        case Union(left, right):
            ends = _ends(left) or (here, there)
            return [(ends[0], f"({_path(writing, left, *ends)}|{_path(writing, right, *ends)})", ends[1])]
    writing.fail("the steps of a path are no path")


def _ends(node: Algebra) -> tuple[Node, Node] | None:
    """The nodes that occur once in a step: its two ends."""
    found: dict[Node, int] = {}
    waiting = [node]
    while waiting:
        match waiting.pop():
            case Bgp(patterns):
                for t in patterns:
                    for end in (t.s, t.o):
                        found[end] = found.get(end, 0) + 1
            case Closure() as closure:
                for end in (closure.start, closure.end):
                    found[end] = found.get(end, 0) + 1
            case Join(left, right):
                waiting += [right, left]
            case Union(left, _):
                waiting.append(left)
            case Filter(inner):
                waiting.append(inner)
    once = [end for end, count in found.items() if count == 1]
    return (once[0], once[1]) if len(once) == 2 else None


def _past(node: Filter) -> Edge | None:
    """A negated set of predicates: a pattern whose predicate nobody can name is none of these."""
    match node:
        case Filter(Bgp((pattern,)), Call("NOT IN", (Variable(name) as needle, *others))):
            if pattern.p == needle and name.startswith("_:") and all(isinstance(other, Constant) for other in others):
                members = "|".join(term(other.term) for other in others if isinstance(other, Constant))
                return pattern.s, f"!({members})", pattern.o
    return None
