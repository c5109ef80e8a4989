"""From a triple pattern over a window to the shape of its binding slots."""

from __future__ import annotations

from collections.abc import Callable

from cqels_opt.query import algebra as a
from cqels_opt.windows.binding_slots import ANYTHING, Inside, Shape


def shape_of(
    pattern: a.TriplePattern, graph: a.Node | None, stream: str, term_id: Callable[[a.Term], int]
) -> tuple[Shape, tuple[str, ...]]:
    """The shape of a pattern over a stream, in element graphs named ``graph`` (None: in any), and the variables of its columns."""
    places: dict[str, int] = {}

    def at(node: a.Node) -> tuple[int, int]:
        """The constant of a node, and the column of a variable (-1: none)."""
        if isinstance(node, a.Variable):
            return 0, places.setdefault(node.name, len(places))
        return (ANYTHING if isinstance(node, a.TripleTerm) else term_id(node)), -1

    triple = (pattern.s, pattern.p, pattern.o)
    columns = [at(node) for node in (*triple, *([] if graph is None else [graph]))]
    inside: list[Inside] = []
    quoted = [(of, node) for of, node in enumerate(triple) if isinstance(node, a.TripleTerm)]
    while quoted:
        of, term = quoted.pop(0)
        for part, node in enumerate((term.s, term.p, term.o)):
            if isinstance(node, a.TripleTerm):
                quoted.append((len(triple) + len(inside), node))
            inside.append(Inside(of, part, *at(node)))
    constants, where = zip(*columns)
    return Shape(stream, constants, where, tuple(inside)), tuple(places)
