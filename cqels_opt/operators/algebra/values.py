"""Inline data: VALUES."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cqels_opt.operators.algebra.operator import Leaf
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.semijoin_filter import KeyFilter


@dataclass(frozen=True, slots=True)
class ValuesNode(Leaf):
    """Inline data as ids."""

    variables: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]

    def output(self, schema: Schema) -> Names:
        """The variables of the table."""
        return frozenset(self.variables)

    def certain(self, schema: Schema) -> Names:
        """Those that no row leaves undefined."""
        return frozenset(v for i, v in enumerate(self.variables) if all(row[i] for row in self.rows))

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The table."""
        size = len(self.rows)
        columns = {v: np.array([row[i] for row in self.rows], np.int64) for i, v in enumerate(self.variables)}
        zeros = np.zeros(size, np.int64)
        return scope.always(Rows(columns, zeros, zeros, np.ones(size, np.int64)))
