"""Eager aggregation: rows that differ only in columns that no later operator reads are merged, and their multiplicities added up.

A query that aggregates a join of independent readings, such as the e-health query of ``rsp-ql-star-2019``, has rows that differ only in
their observations; most of these come from the same row of the delta. This is the eager count of Yan and Larson (Eager aggregation and
lazy aggregation, VLDB 1995), as rows have multiplicities. It is applied where a sample of a few rows shows that it pays off.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cqels_opt.lod.multiplicities import by_group
from cqels_opt.operators.rows import HIDDEN, Ints, Rows, group_ids

FEW = 1_024
"""Rows in the sample, adjacent ones: the matches of one row are adjacent. Fewer than twice as many rows are left as they are."""
PAYS = 0.5
"""The greatest share of distinct rows in the sample at which merging pays off."""


def coalesced(rows: Rows, read: Collection[str]) -> Rows:
    """The rows with the columns that are ``read`` later (and hidden ones): the same bag, in fewer rows where many are equal."""
    rows, middle = rows.only([name for name in rows.columns if name in read or name.startswith(HIDDEN)]), len(rows) // 2
    if len(rows) < 2 * FEW or len(_alike(rows.take(np.arange(middle, middle + FEW)))[1]) > PAYS * FEW:
        return rows
    group, first = _alike(rows)
    n = by_group(rows.n, group, len(first))
    found = rows.take(first)
    return Rows(found.columns, found.start, found.end, n)


def _alike(rows: Rows) -> tuple[Ints, Ints]:
    return group_ids([*rows.columns.values(), rows.start, rows.end], len(rows))
