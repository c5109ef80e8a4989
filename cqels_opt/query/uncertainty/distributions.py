"""Columns of distributions: families and parameters as arrays, parsed from and written to literals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from cqels_opt.query.columns import Column, Places
from cqels_opt.query.uncertainty.families import Family, Floats, Mask, family
from cqels_opt.query.values import Item
from cqels_opt.rdf.terms import literal, literal_parts

DISTRIBUTION: Final = "http://w3id.org/rsp/rspu#distribution"
"""The datatype of distributions (Keskisärkkä et al. 2021, §2)."""

_SUFFIX = f'"^^<{DISTRIBUTION}>'
_FORM = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*\(([^()]*)\)\s*")
_FLOAT = re.compile(r"\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")


class Distributions:
    """Distributions, one per row: the index of the family in ``of`` (-1: an error), and the parameters in the first columns of p."""

    def __init__(self, of: Sequence[Family], number: Places, p: Floats) -> None:
        self.of, self.number, self.p = tuple(of), number, p

    def __len__(self) -> int:
        return len(self.number)

    def items(self) -> Sequence[Item | None]:
        """See :class:`~cqels_opt.query.columns.Column`."""
        return [None if n < 0 else written(self.of[n], row) for n, row in zip(self.number.tolist(), self.p.tolist())]

    def numbers(self) -> Floats:
        """NaN: a distribution is not a number."""
        return np.full(len(self), np.nan)

    def take(self, places: Places) -> Distributions:
        """See :class:`~cqels_opt.query.columns.Column`."""
        return Distributions(self.of, self.number[places], self.p[places])

    def followed_by(self, others: Sequence[Column]) -> Distributions:
        """See :class:`~cqels_opt.query.columns.Column`."""
        if not all(isinstance(other, Distributions) for other in others):
            raise ValueError("columns of several kinds")
        parts = [self, *(other for other in others if isinstance(other, Distributions))]
        return column_of(len(self) + sum(map(len, others)), _segments(parts))

    def rows(self, wanted: Family) -> Places:
        """The positions of the distributions of a family."""
        if wanted not in self.of:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.number == self.of.index(wanted))

    def parameters(self, wanted: Family, rows: Places) -> Floats:
        """The parameters of the distributions at these positions, which belong to one family."""
        return self.p[rows, : wanted.parameters]

    @property
    def known(self) -> Mask:
        """Which rows have a distribution."""
        return self.number >= 0


def _segments(parts: Sequence[Distributions]) -> list[tuple[Family, Places, Floats]]:
    found, begin = list[tuple[Family, Places, Floats]](), 0
    for part in parts:
        for one in part.of:
            rows = part.rows(one)
            found.append((one, rows + begin, part.parameters(one, rows)))
        begin += len(part)
    return found


def column_of(length: int, segments: Sequence[tuple[Family, Places, Floats]]) -> Distributions:
    """A column with these distributions at these positions; invalid parameters and missing rows are errors."""
    of = tuple(dict.fromkeys(one for one, rows, _ in segments if len(rows)))
    number, p = np.full(length, -1, np.int64), np.zeros((length, max((one.parameters for one in of), default=0)))
    for one, rows, parameters in segments:
        if len(rows):
            fine = one.valid(parameters)
            number[rows[fine]] = of.index(one)
            p[rows[fine], : one.parameters] = parameters[fine]
    return Distributions(of, number, p)


def distributions(column: Column) -> Distributions:
    """A column as distributions; any other value is an error."""
    if isinstance(column, Distributions):
        return column
    found: dict[Family, tuple[list[int], list[tuple[float, ...]]]] = {}
    for place, item in enumerate(column.items()):
        read = _read(item) if isinstance(item, str) and item.endswith(_SUFFIX) else None
        if read is not None and (one := family(read[0])) is not None and len(read[1]) == one.parameters:
            places, parameters = found.setdefault(one, ([], []))
            places.append(place)
            parameters.append(read[1])
    segments = [(one, np.array(places, np.int64), np.array(p, np.float64)) for one, (places, p) in found.items()]
    return column_of(len(column), segments)


@lru_cache(maxsize=1 << 14)
def _read(item: str) -> tuple[str, tuple[float, ...]] | None:
    """The name and the parameters of a literal; None if it does not have the form ``name(p1, …)`` with floating-point numbers."""
    form = _FORM.fullmatch(literal_parts(item)[0])
    parts = form[2].split(",") if form else []
    if form is None or not all(map(_FLOAT.fullmatch, parts)):
        return None
    return form[1], tuple(map(float, parts))


def written(one: Family, parameters: Sequence[float]) -> str:
    """The literal of a distribution: ``N(19.7, 1.0)``, each parameter with the fewest digits that parse back."""
    return literal(f"{one.name}({', '.join(map(repr, parameters[: one.parameters]))})", DISTRIBUTION)


def each_family(length: int, columns: Sequence[Distributions], compute: Callable[[Places, Sequence[Family]], Floats]) -> Floats:
    """Numbers for the rows in which all columns have a distribution, computed once per combination of families; NaN elsewhere."""
    found = np.full(length, np.nan)
    whole = np.logical_and.reduce([column.known for column in columns])
    if not whole.any():
        return found
    stacked = np.stack([column.number for column in columns])[:, whole]
    places = np.flatnonzero(whole)
    combinations, which = np.unique(stacked, axis=1, return_inverse=True)
    for i, numbers in enumerate(combinations.T.tolist()):
        rows = places[which.ravel() == i]
        found[rows] = compute(rows, [column.of[n] for column, n in zip(columns, numbers)])
    return found
