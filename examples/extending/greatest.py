"""An operator of another package: of the solutions of a pattern, at each instant, those with the greatest value for their key.

``SERVICE <urn:example:greatest?of=value&per=room> { … }`` keeps the solutions whose ``?value`` no other solution with the same ``?room``
exceeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cqels_opt.operators.aggregate import ranks
from cqels_opt.operators.algebra.operator import Keyed, Operator
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.interval_join import compatible_pairs, covered
from cqels_opt.operators.rows import Rows, group_ids


@dataclass(frozen=True, slots=True)
class Greatest(Keyed):
    """The rows with the greatest ``value`` for each ``key``. Keyed: rows with different keys do not concern each other."""

    key: str
    value: str

    title = "GREATEST"  # in EXPLAIN

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The engine applies the operator again to the keys with a row that begins or ends, and to no others."""
        return (self.key,)

    @property
    def own_variables(self) -> frozenset[str]:
        """The variables that the operator reads: the engine drops others that the query does not read."""
        return frozenset((self.key, self.value))

    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """Each row, without the parts of its interval in which a row of the same key has a greater value."""
        key, _ = group_ids([rows.columns[self.key]], len(rows))
        rank, _ = ranks(rows.columns[self.value], scope.terms)  # ids have no order; their terms have
        by_key = Rows({"key": key + 1}, rows.start, rows.end, rows.n)
        row, other = compatible_pairs(by_key, by_key)  # of the same key, with intervals that meet
        row, other = row[exceeded := rank[other] > rank[row]], other[exceeded]
        start = np.maximum(rows.start[row], rows.start[other])
        end = np.minimum(rows.end[row], rows.end[other])
        return covered(rows, row, start, end)[1]


def greatest(pattern: Operator, variables: tuple[str, ...], *, of: str, per: str) -> Greatest:
    """The entry point. ``variables`` are those of the pattern; a ValueError becomes an error message at the SERVICE."""
    if missing := {of, per} - set(variables):
        raise ValueError(f"the pattern has no ?{min(missing)}")
    return Greatest(pattern, per, of)
