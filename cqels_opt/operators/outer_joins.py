"""Joins with units: static right sides of an OPTIONAL, MINUS or EXISTS.

The right side is always valid, so a left row either has a match or has none for all of its interval, and left rows do not concern each
other: Δ(L ⟕ S) = ΔL ⟕ S, and likewise for ▷ and ⋉.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cqels_opt.operators.blocks import Static
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import HIDDEN, Ints, Rows
from cqels_opt.operators.term_table import TermTable
from cqels_opt.plans import JoinKind
from cqels_opt.stats.frequencies import Fanout

OWNER = f"{HIDDEN}owner"


def with_unit(left: Rows, unit: Static, side: Indexed, terms: TermTable) -> Iterator[Rows]:
    """OPTIONAL: the left rows with their matches. EXISTS, MINUS: the left rows that have a match, or none; multiplicities stay."""
    matched = np.zeros(len(left), bool)
    if unit.condition is None and unit.kind != "optional":
        if side.rows:
            matched = side.relation.index(tuple(side.names[v] for v in unit.on)).contains(*(left.columns[v] for v in unit.on))
    else:
        read = left if unit.kind == "optional" else left.only([*unit.on, *unit.reads])
        for rows in side.probe(read.with_column(OWNER, np.arange(len(left))), unit.on):
            if unit.condition is not None:
                rows = rows.take(truth(rows.only({*unit.variables, *unit.reads}), unit.condition, terms))
            matched[rows.columns.pop(OWNER)] = True
            if unit.kind == "optional":
                yield rows
    if unit.kind != "optional":
        yield left.take(matched == (unit.kind == "semi"))
        return
    alone = left.take(~matched)
    for variable in unit.variables:
        if variable not in unit.on:
            alone = alone.with_column(variable, np.zeros(len(alone), np.int64))
    yield alone


def made_of_each(kind: JoinKind, matches: Ints) -> Ints:
    """The number of rows that a left row with some number of matches becomes."""
    found = matches
    if kind == "optional":
        found = np.maximum(matches, 1)
    elif kind in ("anti", "semi"):
        found = ((matches > 0) == (kind == "semi")).astype(np.int64)
    return found


def rows_of_each(kind: JoinKind, fanout: Fanout) -> Fanout:
    """The number of rows that a left row becomes, by the value that it is joined on: the fan-out itself for an inner join."""
    return lambda values: made_of_each(kind, fanout(values))
