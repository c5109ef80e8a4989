"""The difference between two relations: a bag with positive counts of added rows and negative counts of removed ones.

Such bags are joined and projected like others, because multiplicities multiply and add; so the change of a join follows from the
changes of its sides (Gupta, Mumick, Subrahmanian: Maintaining views incrementally, SIGMOD 1993, §4, the counting algorithm).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from cqels_opt.lod.order import Ids, is_sorted
from cqels_opt.lod.relation import Relation, compact, join_restrict, join_rows, restrict

BLOCK: Final = 1 << 12


def difference(before: Relation, after: Relation) -> Relation:
    """The rows of two relations of the same variables that are not as often in both. Sorted ones are compared a block at a time."""
    variables = after.variables
    columns: dict[str, list[Ids]] = {v: [np.empty(0, np.int64)] for v in variables}
    counts: list[Ids] = [np.empty(0, np.int64)]
    for one, other in _unlike(before, after):
        for relation, rows, sign in ((before, one, -1), (after, other, 1)):
            for variable in variables:
                columns[variable].append(relation.columns[variable][rows])
            counts.append(sign * relation.multiplicities()[rows])
    return _of({v: np.concatenate(some) for v, some in columns.items()}, np.concatenate(counts))


def _unlike(before: Relation, after: Relation) -> Iterator[tuple[slice, slice]]:
    """The positions at which rows of both may differ."""
    variables = after.variables
    firsts = [relation.columns[variables[0]] for relation in (before, after)]
    cuts = np.empty(0, np.int64)
    if all(map(is_sorted, firsts)):
        cuts = np.unique(firsts[0][BLOCK::BLOCK])
    ends = [np.concatenate([[0], np.searchsorted(first, cuts, "right"), [len(first)]]) for first in firsts]
    for a, b, c, d in zip(ends[0], ends[0][1:], ends[1], ends[1][1:]):
        one, other = slice(int(a), int(b)), slice(int(c), int(d))
        if not all(np.array_equal(x[one], y[other]) for x, y in zip(_arrays(before), _arrays(after))):
            yield one, other


def _arrays(relation: Relation) -> list[Ids]:
    return [*relation.columns.values(), relation.multiplicities()]


def change_of_join(a: Relation, b: Relation, of_a: Relation, of_b: Relation, kept: Sequence[str]) -> Relation:
    """The change of a join that is projected to some variables: of the sides as they are after their own changes."""
    both = Relation(of_b.columns, -of_b.multiplicities(), of_b.rows)
    parts = [join_restrict(of_a, b, kept), join_restrict(of_b, a, kept), join_restrict(of_a, both, kept)]
    return _sum(parts, kept)


def rows_of_change(a: Relation, b: Relation, of_a: Relation, of_b: Relation) -> int:
    """How many rows :func:`change_of_join` passes through."""
    return join_rows(of_a, b) + join_rows(of_b, a) + join_rows(of_a, of_b)


def projected(change: Relation, kept: Sequence[str]) -> Relation:
    """The change of a projection."""
    return _sum([restrict(change, kept)], kept)


def applied(before: Relation, change: Relation) -> Relation:
    """A relation after a change. ValueError if more rows are removed than there were."""
    found = _sum([before, change], before.variables)
    if found.rows and int(found.multiplicities().min()) < 0:
        raise ValueError("more rows went than there were")
    return Relation.build(found.columns, None if bool((found.multiplicities() == 1).all()) else found.n)


def _sum(parts: Sequence[Relation], variables: Sequence[str]) -> Relation:
    columns = {v: np.concatenate([part.columns[v] for part in parts]) for v in variables}
    return _of(columns, np.concatenate([part.multiplicities() for part in parts]))


def _of(columns: dict[str, Ids], counts: Ids) -> Relation:
    found, n = compact(columns, counts)
    some = n != 0
    return Relation.build({v: column[some] for v, column in found.items()}, n[some])
