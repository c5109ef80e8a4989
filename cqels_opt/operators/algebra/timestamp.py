"""C-SPARQL's ``timestamp()``: the time of a triple, looked up as EXISTS looks up its pattern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cqels_opt.operators.algebra.exists import ExistsNode
from cqels_opt.operators.algebra.scope import Names, Scope
from cqels_opt.operators.algebra.two_sided import common_intervals
from cqels_opt.operators.interval_join import compatible_pairs, covered
from cqels_opt.operators.rows import Rows, concat


@dataclass(frozen=True, slots=True)
class StampNode(ExistsNode):
    """The input with one more column, ``flag``: the time that the pattern, in its variable ``time``, has for the values of ``keys``.

    It is unbound where one of the keys is, and where the pattern has no row of them.
    """

    keys: tuple[str, ...] = ()
    time: str = ""

    title = "timestamp()"

    @property
    def own_variables(self) -> Names:
        """The keys."""
        return frozenset(self.keys)

    def apply(self, left: Rows, right: Rows, scope: Scope) -> Rows:
        """The rows with the time of their triple, cut where it changes."""
        sure = np.logical_and.reduce([np.ones(len(left), bool), *(column != 0 for column in left.values(self.keys))])
        whole = np.flatnonzero(sure)
        a, b = compatible_pairs(left.take(whole).only(self.keys), right)
        owner, start, end = common_intervals(left, right, whole[a], b)
        (latest,) = right.values([self.time])
        found = left.take(owner).with_interval(start, end).with_column(self.flag, latest[b])
        alone = covered(left, owner, start, end)[1]
        return concat([found, alone.with_column(self.flag, np.zeros(len(alone), np.int64))])
