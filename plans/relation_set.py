"""Sets of relations as bits of an integer: relation ``i`` of a query graph is the bit ``1 << i``.

Python's integers have no width, so a graph of any size fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

RelationSet: TypeAlias = int


def members(relations: RelationSet) -> Iterator[int]:
    """The relations of a set, lowest first."""
    while relations:
        low = relations & -relations
        yield low.bit_length() - 1
        relations ^= low


def of(indexes: Iterable[int]) -> RelationSet:
    """The set of these relations."""
    result = 0
    for index in indexes:
        result |= 1 << index
    return result


def of_all(sets: Sequence[RelationSet], chosen: RelationSet) -> RelationSet:
    """The union of the sets that belong to some relations."""
    result = 0
    for index in members(chosen):
        result |= sets[index]
    return result


def size(relations: RelationSet) -> int:
    """How many relations a set has."""
    return relations.bit_count()


def contains(larger: RelationSet, smaller: RelationSet) -> bool:
    """Whether every relation of ``smaller`` is in ``larger``."""
    return smaller & ~larger == 0


def subsets(relations: RelationSet) -> Iterator[RelationSet]:
    """Every non-empty subset, the set itself included, in increasing order of the integers (Vance & Maier 1996)."""
    subset = relations & -relations
    while subset:
        yield subset
        subset = (subset - relations) & relations


def below(index: int) -> RelationSet:
    """The relations 0 … ``index``: the set B of Moerkotte & Neumann 2006, which keeps a pair from being found twice."""
    return (1 << (index + 1)) - 1
