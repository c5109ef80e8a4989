"""The ids of IRIs that a worker has read and that the static store has: such terms are neither hashed nor compared again."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.operators.rows import Ints

MOST_KNOWN = 1 << 18
"""The most IRIs whose ids are kept; columns with more distinct terms do without."""
MANY_ROWS = 1 << 15
"""Rows of a column that are looked up at once, without finding its distinct terms before."""
SAMPLED = 256


class KnownTerms(dict[str, int]):
    """Ids by text. It only grows, until it begins again."""

    def __init__(self) -> None:
        super().__init__()
        self._table: tuple[pa.StringArray, Ints] | None = None

    def remember(self, texts: pa.StringArray, ids: Ints) -> None:
        """Adds terms; when these are too many, the others are forgotten."""
        if len(self) + len(ids) > MOST_KNOWN:
            self.clear()
        found: Any = texts.to_pylist()
        self.update(zip(found, ids.tolist()))
        self._table = None

    def of(self, distinct: pa.StringArray) -> Ints:
        """The ids of distinct terms; 0 where one is not known."""
        texts: Any = distinct.to_pylist()
        return np.fromiter(map(self.get, texts, repeat(0)), np.int64, len(texts))

    def of_rows(self, column: Any) -> Ints | None:
        """The ids of all rows of a column, 0 where the term is not known; None if this is not the faster way.

        Arrow hashes the known terms and then each row. Otherwise it hashes each row to find the distinct terms, which are then looked up as
        Python texts, by each task of a batch for itself.
        """
        rows = len(column)
        if rows < MANY_ROWS or not 0 < len(self) <= rows or column.type != pa.string() or column.null_count:
            return None
        sample: Any = column.take(np.linspace(0, rows - 1, SAMPLED).astype(np.int64))
        if sum(term in self for term in sample.to_pylist()) < SAMPLED * 3 // 4:
            return None
        if self._table is None:
            self._table = pa.array(self, pa.string()), np.fromiter((*self.values(), 0), np.int64, len(self) + 1)
        texts, ids = self._table
        found: Any = pc.index_in(column, value_set=texts)
        places: Ints = pc.fill_null(found, len(texts)).to_numpy()
        return ids[places]
