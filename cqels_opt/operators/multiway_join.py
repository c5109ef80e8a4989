"""Multiway joins: rows are joined with several relations at once, which all bind the same new variables.

For each row the relation with the fewest matches proposes candidates, and the others verify them (Generic Join; Ngo, Ré & Rudra 2013,
§3). All rows are looked up together, and each relation proposes for the rows for which it has the fewest matches. The work follows the
number of candidates, the sum over rows of the smallest fan-out, whatever the fan-outs in the other relations are. The indexes are those
of binary joins; nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cqels_opt.lod.key_search import SORTED_PROBES
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import HIDDEN, Ints, Rows, chunks

PLACE = f"{HIDDEN}place"
"""The hidden column with the place of a candidate's row in the left side."""


class JoinedRelation(NamedTuple):
    """A relation of a multiway join: its indexes, the variables that it is joined on, and those that it verifies of candidates."""

    sides: Sequence[Indexed]
    on: Sequence[str]
    verifies: Sequence[str]


def multiway_join(
    left: Rows, relations: Sequence[JoinedRelation], proposed: Callable[[int], None] = lambda candidates: None
) -> Iterator[Rows]:
    """The joined rows, a bounded number at a time. ``proposed`` is called with numbers of candidates."""
    if not len(left):
        return
    fans = np.stack([fan_out(left, relation.sides, relation.on) for relation in relations])
    proposer = np.where(fans.min(axis=0) > 0, fans.argmin(axis=0), -1)
    keys = {variable for relation in relations for variable in relation.on}
    narrow = left.only(v for v in left.columns if v in keys or v.startswith(HIDDEN)).with_column(PLACE, np.arange(len(left)))
    totals = fans.sum(axis=1)
    for number, relation in enumerate(relations):
        places = np.flatnonzero(proposer == number)
        if not len(places):
            continue
        proposed(int(fans[number, places].sum()))
        others = [relations[i] for i in np.argsort(totals, kind="stable").tolist() if i != number]
        for candidates in chunks(_joined(iter([narrow.take(places)]), relation.sides, relation.on)):
            for verified in _verified(candidates, others):
                yield _completed(verified, left)


def _verified(candidates: Rows, relations: Sequence[JoinedRelation]) -> Iterator[Rows]:
    """The candidates joined with the relations that verify them.

    With several relations, candidates without a match in one of them are dropped first: a relation may have a row many times.
    """
    for relation in relations if len(relations) > 1 else ():
        candidates = candidates.take(fan_out(candidates, relation.sides, relation.verifies) > 0)
    found: Iterator[Rows] = iter([candidates])
    for relation in relations:
        found = chunks(_joined(found, relation.sides, relation.verifies))
    yield from found


def _joined(parts: Iterator[Rows], sides: Sequence[Indexed], on: Sequence[str]) -> Iterator[Rows]:
    for rows in parts:
        left = in_order(rows, sides, on)
        for side in sides:
            yield from side.probe(left, on)


def _completed(rows: Rows, left: Rows) -> Rows:
    """The rows with the columns of the left side that no relation is joined on."""
    places = rows.columns[PLACE]
    columns = {v: rows.columns[v] if v in rows.columns else column[places] for v, column in left.columns.items()}
    return Rows(
        columns | {v: c for v, c in rows.columns.items() if v not in columns and v != PLACE}, rows.start, rows.end, rows.n
    )


def fan_out(rows: Rows, sides: Sequence[Indexed], on: Sequence[str]) -> Ints:
    """How many rows of a relation each row matches, whatever their intervals."""
    total = np.zeros(len(rows), np.int64)
    for side in sides:
        if side.rows:
            total += side.fan_out(rows, on)
    return total


def in_order(rows: Rows, sides: Sequence[Indexed], on: Sequence[str]) -> Rows:
    """The rows by the keys of the indexes, if two of these would otherwise sort the same keys."""
    if len(sides) > 1 and on and len(rows) >= SORTED_PROBES:
        sorting = [side.sorts_by(on, len(rows)) for side in sides]
        for variable in sorting:
            if variable is not None and sorting.count(variable) > 1:
                return rows.take(np.argsort(rows.columns[variable]))
    return rows
