"""Rows for tests, and what they mean: a bag of (row, instant)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from cqels_opt.operators.rows import Rows

HORIZON = 6
Plain = tuple[tuple[int, ...], int, int, int]  # values, start, end, multiplicity


def rows_of(variables: Sequence[str], plain: Iterable[Plain]) -> Rows:
    """Rows with these values (0: unbound), intervals and multiplicities."""
    found = list(plain)
    columns = {v: np.array([row[0][i] for row in found], np.int64) for i, v in enumerate(variables)}
    start, end, n = (np.array([row[k] for row in found], np.int64) for k in (1, 2, 3))
    return Rows(columns, start, end, n)


def plain_rows(width: int, values: int = 3, unbound: bool = False, most: int = 8) -> st.SearchStrategy[list[Plain]]:
    """A few rows with intervals within the horizon."""
    value = st.integers(0 if unbound else 1, values)
    span = st.tuples(st.integers(0, HORIZON - 1), st.integers(1, HORIZON)).map(lambda p: (p[0], min(HORIZON, p[0] + p[1])))
    row = st.tuples(st.tuples(*[value] * width), span, st.integers(1, 3)).map(lambda r: (r[0], *r[1], r[2]))
    return st.lists(row, max_size=most)


def snapshots(rows: Rows, variables: Sequence[str]) -> Counter[tuple[int, tuple[int, ...]]]:
    """How often each row is there at each instant."""
    found: Counter[tuple[int, tuple[int, ...]]] = Counter()
    columns = [rows.columns[v].tolist() if v in rows.columns else [0] * len(rows) for v in variables]
    for i, (start, end, n) in enumerate(zip(rows.start.tolist(), rows.end.tolist(), rows.n.tolist())):
        for at in range(start, end):
            found[at, tuple(c[i] for c in columns)] += n
    return found
