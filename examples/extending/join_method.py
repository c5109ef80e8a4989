"""A join method of another package: an index probe whose left rows are sorted by key first.

Neighbouring keys are found in neighbouring pages of the index, so each look-up reads pages that the one before has read. The package
names the class in its ``pyproject.toml``; ``cqels-opt run`` then chooses it by cost, and ``--joins sorted-probe`` always uses it::

    [project.entry-points."cqels_opt.join_methods"]
    sorted-probe = "my_package.join_method:SortedProbe"
"""

from collections.abc import Iterable, Sequence

import numpy as np

from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import Rows
from cqels_opt.plans.join_methods import JoinInputs, JoinMethod, PhysicalCostModel

COMPARISON = 1e-9
"""Seconds per comparison of a sort in numpy."""


class SortedProbe(JoinMethod):
    """Sorts the left rows by their first join variable, and probes the index in that order."""

    name = "sorted probe"

    def applicable(self, join: JoinInputs) -> bool:
        """A join with a relation, which has an index."""
        return join.operator == "probe"

    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """The sort, then look-ups without the steps of a binary search: a neighbour's result is the place to begin."""
        c, rows = prices.constants, join.left
        sort = rows * np.log2(max(rows, 2.0)) * COMPARISON
        return c.operator + float(sort + rows * (c.probe + c.step) + join.produced * c.produce) / prices.tasks

    def join(self, left: Rows, right: Indexed, on: Sequence[str]) -> Iterable[Rows]:
        """The same rows as an unsorted probe, in another order."""
        return right.probe(left.take(np.argsort(left.columns[on[0]], kind="stable")), on)
