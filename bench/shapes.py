"""Query graphs of the shapes that join-ordering papers measure."""

from __future__ import annotations

from cqels_opt.plans import QueryGraph, RelationNode


def relation(name: str, variables: str, dynamic: bool = False) -> RelationNode:
    """A relation with these variables, separated by spaces."""
    return RelationNode(name, frozenset(variables.split()), dynamic)


def chain(n: int) -> QueryGraph:
    """Each relation shares a variable with the next one."""
    return QueryGraph([relation(f"r{i}", f"x{i} x{i + 1}", i < 2) for i in range(n)])


def cycle(n: int) -> QueryGraph:
    """A chain whose last relation shares a variable with the first."""
    return QueryGraph([relation(f"r{i}", f"x{i} x{(i + 1) % n}", i < 2) for i in range(n)])


def star(n: int) -> QueryGraph:
    """One relation shares a variable with each of the others."""
    hub = relation("r0", " ".join(f"x{i}" for i in range(1, n)), True)
    return QueryGraph([hub, *(relation(f"r{i}", f"x{i}", i < 2) for i in range(1, n))])


def clique(n: int) -> QueryGraph:
    """All share one variable."""
    return QueryGraph([relation(f"r{i}", f"s y{i}", i < 2) for i in range(n)])


SHAPES = {"chain": chain, "cycle": cycle, "star": star, "clique": clique}
