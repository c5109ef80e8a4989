"""Paths of repeated steps as text: the algebra of a step is a chain of patterns from one end to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from cqels_opt.query.algebra import Algebra, Bgp, Call, Closure, Constant, Filter, Join, Node, TriplePattern, Union, Variable
from cqels_opt.query.printing.writing import Writing, predicate

Link: TypeAlias = "TriplePattern | Algebra"


def closure(writing: Writing, node: Closure) -> str:
    """``start path* end`` of a closure, with the full stop."""
    return f"{writing.node(node.start)} {_repeated(writing, node)} {writing.node(node.end)} ."


def _repeated(writing: Writing, node: Closure) -> str:
    sign = "+" if node.nodes is None else "*" if node.many else "?"
    return f"({_path(writing, node.step, node.here, node.there)}){sign}"


def _path(writing: Writing, step: Algebra, start: Node, end: Node) -> str:
    """The path from one node to another within a step."""
    links = list(_links(step))
    if start != end and end in _ends(links[0]) and start not in _ends(links[0]):  # it was written as the inverse of a sequence
        return f"^({_path(writing, step, end, start)})"
    texts: list[str] = []
    at = start
    while links:
        link = next((link for link in links if at in _ends(link)), None)
        if link is None:
            writing.fail("a property path whose steps are no chain")
        links.remove(link)
        text, at = _followed(writing, link, at, end if not links else None)
        texts.append(text)
    return "/".join(texts)


def _links(step: Algebra) -> Iterator[Link]:
    match step:
        case Join(left, right):
            yield from _links(left)
            yield from _links(right)
        case Bgp(patterns):
            yield from patterns
        case _:
            yield step


def _followed(writing: Writing, link: Link, at: Node, end: Node | None) -> tuple[str, Node]:
    """The text of a link from one of its ends, and the node at its other end."""
    others = [node for node in _ends(link) if node != at]
    to = end if end is not None else others[0] if others else at
    match link:
        case TriplePattern(s, p, _):
            text = "!()" if isinstance(p, Variable) else predicate(writing, p)
            return (text if s == at else f"^{text}"), to
        case Filter(Bgp((TriplePattern(s),)), Call("NOT IN", (_, *members))):
            listed = "|".join(predicate(writing, member.term) for member in members if isinstance(member, Constant))
            return (f"!({listed})" if s == at else f"^(!({listed}))"), to
        case Union(left, right):
            return f"({_path(writing, left, at, to)}|{_path(writing, right, at, to)})", to
        case Closure(start=start):
            text = _repeated(writing, link)
            return (text if start == at else f"^({text})"), to
    writing.fail("a property path with a step that has no syntax")


def _ends(link: Link) -> Sequence[Node]:
    """The nodes that a link connects; for a UNION, those of both sides."""
    match link:
        case TriplePattern(s, _, o):
            return (s, o)
        case Closure(start=start, end=end):
            return (start, end)
        case Filter(inner):
            return [node for part in _links(inner) for node in _ends(part)]
        case Union(left, right):
            first, second = ([node for part in _links(side) for node in _ends(part)] for side in (left, right))
            return [node for node in dict.fromkeys(first) if node in second]
        case _:
            return ()
