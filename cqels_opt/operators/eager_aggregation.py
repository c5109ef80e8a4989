"""Rows that have become equal since nobody reads any more in what they differed, once, with their multiplicities added up.

A query that adds up what a join makes of readings that do not concern each other, as the e-health query of ``rsp-ql-star-2019``, has
rows that differ in observations alone; most of them end with the same row of the delta. It is the eager count of Yan and Larson (Eager
aggregation and lazy aggregation, VLDB 1995), as rows here have multiplicities, made where a look at a few rows says that it pays.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cqels_opt.lod.multiplicities import by_group
from cqels_opt.operators.rows import HIDDEN, Ints, Rows, group_ids

FEW = 1_024
"""Rows that are looked at, side by side: the matches of one row lie together. Fewer than twice as many are left as they are."""
PAYS = 0.5
"""The share of distinct rows among these, at most."""


def coalesced(rows: Rows, read: Collection[str]) -> Rows:
    """The rows with the columns that are still ``read`` (and hidden ones): the same bag, in fewer rows where many are equal."""
    rows, middle = rows.only([name for name in rows.columns if name in read or name.startswith(HIDDEN)]), len(rows) // 2
    if len(rows) < 2 * FEW or len(_alike(rows.take(np.arange(middle, middle + FEW)))[1]) > PAYS * FEW:
        return rows
    group, first = _alike(rows)
    n = by_group(rows.n, group, len(first))
    found = rows.take(first)
    return Rows(found.columns, found.start, found.end, n)


def _alike(rows: Rows) -> tuple[Ints, Ints]:
    return group_ids([*rows.columns.values(), rows.start, rows.end], len(rows))
