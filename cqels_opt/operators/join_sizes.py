"""Sizes of the joins of a join tree, from the numbers of matches of rows: nothing is joined.

The rows that a row becomes are the product over its children of the rows that its matches in them become, bottom-up (the count that
Yannakakis' algorithm gives; exact for joins by key, whatever the intervals of rows). A semi-join reduction has two such counts for each
relation, of all rows and of those that it left. Their ratio is what an operator would have given without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.plans.join_tree import ROWS, JoinTree

Floats = NDArray[np.float64]


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class JoinTable:
    """The rows at the root of a join tree, or those of a relation that they meet: how many matches each has in each child, and whether it
    is ``alive``, which is to have a match in each of them that is alive itself.

    Of a relation, ``key`` is for each row the place of its value among the ``keys`` that were looked up, and ``of_parent`` the same for
    each row of its parent (-1: that row was not looked up).
    """

    rows: Rows
    alive: NDArray[np.bool_]
    matches: dict[int, Ints] = field(default_factory=dict)
    keys: Ints = field(default_factory=_none)
    key: Ints = field(default_factory=_none)
    of_parent: Ints = field(default_factory=_none)


def join_sizes(tree: JoinTree, tables: Mapping[int, JoinTable]) -> list[tuple[float, float]]:
    """The rows of the join up to each relation of a tree, in the order of the plan: of all rows, and of those that are alive.

    Matches that were not looked up count as none. Rows of a parent that were not looked up in a table have its mean per match.
    """
    counted = {place: _Counted(table) for place, table in tables.items()}
    sizes: list[tuple[float, float]] = []
    for place, (_, parent) in enumerate(tree):
        if parent in counted:
            counted[parent].join(place, tables[parent].matches[place].astype(np.float64))
            for inner in _upwards(place, tree):
                if inner in counted:
                    above = tree[inner].parent
                    counted[above].join(inner, counted[inner].per_row_of(tables[above].matches[inner]))
        of_all, left = counted[ROWS].product.sum(axis=1).tolist()
        sizes.append((of_all, left))
    return sizes


def _upwards(place: int, tree: JoinTree) -> Iterator[int]:
    """A relation, and those above it."""
    while place != ROWS:
        yield place
        place = tree[place].parent


class _Counted:
    """The rows of a table, and for each the number of rows that it becomes by the children that have been joined: by all matches, and by
    those that are alive (0 for a row that is not).
    """

    def __init__(self, table: JoinTable) -> None:
        self._table = table
        self.product: Floats = np.ones((2, len(table.alive)))
        self.product[1] = table.alive
        self._factors: dict[int, Floats] = {}

    def join(self, child: int, factor: Floats) -> None:
        """Joins a child; or more of what is below it, which replaces its factor."""
        old = self._factors.get(child)
        self._factors[child] = factor
        if old is not None:  # rows without matches stay without
            factor = np.divide(factor, old, out=np.zeros_like(factor), where=old > 0)
        self.product = self.product * factor

    def per_row_of(self, matches: Ints) -> Floats:
        """The rows that each row of the parent becomes by this table and what has been joined below it; ``matches`` are its own."""
        key, places, keys = self._table.key, self._table.of_parent, len(self._table.keys)
        per_key: Floats = np.stack([np.bincount(key, product, minlength=keys) for product in self.product])
        known = places >= 0
        if known.all():
            return per_key[:, places]
        factor: Floats = matches * (per_key.sum(axis=1, keepdims=True) / max(1, len(key)))
        factor[:, known] = per_key[:, places[known]]
        return factor
