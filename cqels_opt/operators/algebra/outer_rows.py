"""The rows outside an EXISTS, for which its pattern is evaluated (SPARQL 1.1 §18.6, substitute).

The values of the outer rows reach every leaf of the pattern: the rows of a leaf are joined with the outer rows, and from then on carry the
number of their outer row in a column, the *mark*, which all operators treat as a variable. So rows of different outer rows never meet,
and one evaluation serves all outer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cqels_opt.operators.interval_join import combine, compatible_pairs, visible
from cqels_opt.operators.rows import Rows

OWN = "#own:"  # hidden columns: the values that rows bind themselves

Seeing: TypeAlias = Callable[[Rows, Callable[[Rows], Rows]], Rows]
"""Runs a function over rows that have more columns, and returns its rows without these columns."""


@dataclass(frozen=True, slots=True)
class OuterRows:
    """The outer rows: the columns that the pattern reads, and their number (from 1) in the column ``mark``."""

    rows: Rows
    mark: str

    def only(self, variables: Iterable[str]) -> OuterRows:
        """The outer rows as a sub-select sees them."""
        return OuterRows(self.rows.only([*variables, self.mark]), self.mark)

    def joined(self, rows: Rows) -> Rows:
        """The rows of a leaf, each with the number of every outer row that it is compatible with."""
        a, b = compatible_pairs(self.rows, rows)
        found = combine(self.rows.only([self.mark]), rows, a, b)
        return Rows(found.columns, found.start, found.end, rows.n[b])

    def seen_by(self, rows: Rows, run: Callable[[Rows], Rows]) -> Rows:
        """Runs a function over rows that have the outer values of the variables that they do not bind."""
        return own_values(run(self.added(rows)))

    def added(self, rows: Rows) -> Rows:
        """The rows with the outer values of the variables that they do not bind."""
        columns, at = dict(rows.columns), rows.columns[self.mark] - 1
        for v in visible(self.rows):
            if v == self.mark:
                continue
            own = rows.columns.get(v)
            outer = self.rows.columns[v][at]
            columns[OWN + v] = np.zeros(len(rows), np.int64) if own is None else own
            columns[v] = outer if own is None else np.where(own == 0, outer, own)
        return Rows(columns, rows.start, rows.end, rows.n)


def own_values(rows: Rows) -> Rows:
    """The rows without the outer values that :meth:`OuterRows.added` gave them."""
    own = {v.removeprefix(OWN): c for v, c in rows.columns.items() if v.startswith(OWN)}
    columns = {v: own.get(v, c) for v, c in rows.columns.items() if not v.startswith(OWN)}
    return Rows(columns, rows.start, rows.end, rows.n)


def as_they_are(rows: Rows, run: Callable[[Rows], Rows]) -> Rows:
    """Runs a function over rows that see no outer row."""
    return run(rows)
