"""Greedy operator ordering, for blocks with too many pairs to enumerate (GOO, Fegaras 1998).

The two parts whose join has the fewest rows are joined, until one part is left; parts without a shared variable are
multiplied only when no other join is possible. A unit is joined once the variables that it requires are bound. In addition to this bushy
tree, the search proposes a greedy left-deep order from the delta and, of a cyclic graph, one whose joins close cycles at once
(``cycles.py``). The pairs of all are a small memo, which orients each join and picks the cheapest tree.

``part_rows.py`` has the rows of the possible joins. A join changes only the rows of joins with its result, so a tree of n relations takes
about n² steps of numpy: the best partner of each part is stored, and searched again only if it was joined.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np

from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.cycles import is_cyclic, multiway_keys
from cqels_opt.plans.dpccp import Pair
from cqels_opt.plans.part_rows import PartRows, PartShape
from cqels_opt.plans.relation_set import RelationSet, members


class GreedySearch:
    """Finds greedy trees over one graph. ``candidates`` counts the joins that were priced."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator, self.graph = estimator, estimator.graph
        self._shape = PartShape(self.graph)
        self._is_cyclic = is_cyclic(self.graph)
        self.candidates = 0

    def pairs(self, source: int) -> list[Pair]:
        """The ordered pairs of the greedy trees for one delta source (an index into the estimator's sources)."""
        closing = self._left_deep(source, closing=True) if self._is_cyclic else []
        return self._bushy(source) + self._left_deep(source) + closing

    def _bushy(self, source: int) -> list[Pair]:
        rows = PartRows(self._shape, self.estimator, source)
        count = len(self.graph.relations)
        # One line per part, results of joins after relations, with one column per earlier part.
        table = np.full((2 * count, 2 * count), np.inf)
        table[:count, :count] = np.where(np.tri(count, k=-1, dtype=bool), rows.singles(), np.inf)
        partner, least = table.argmin(axis=1), table.min(axis=1)
        self.candidates += count * (count - 1) // 2
        pairs: list[Pair] = []
        for made in range(count, 2 * count - 1):
            later = _first_of_least(least, partner, count)
            earlier = int(partner[later])
            left, right = rows.sets[earlier], rows.sets[later]
            pairs += [pair for pair in ((left, right), (right, left)) if self.graph.fits(*pair)]
            rows.merge(earlier, later)
            for gone in (earlier, later):
                table[gone], table[:, gone], least[gone] = np.inf, np.inf, np.inf
            keys = rows.against(made)
            self.candidates += int(np.isfinite(keys).sum())
            table[made, : len(keys)] = keys
            lost = np.flatnonzero(((partner == earlier) | (partner == later)) & np.isfinite(least))
            for line in (*lost.tolist(), made):
                partner[line] = table[line].argmin()
                least[line] = table[line, partner[line]]
        return pairs

    def _left_deep(self, source: int, *, closing: bool = False) -> list[Pair]:
        """A left-deep order; with ``closing``, the relations that close a cycle with the next one are joined together with it."""
        rows = PartRows(self._shape, self.estimator, source)
        joined = self.graph.index[self.estimator.base.sources[source]]
        pairs: list[Pair] = []
        while (left := rows.sets[joined]) != self.graph.everything:
            keys = rows.against(joined)
            self.candidates += int(np.isfinite(keys).sum())
            chosen = int(keys.argmin())
            together = self._closed_with(left, chosen) if closing else (chosen,)
            sets = [*accumulate(1 << relation for relation in together)]
            pairs += [(before, after & ~before) for before, after in pairwise(sets)]  # a memo has a node for the relations
            pairs.append((left, sets[-1]))
            for relation in together:
                rows.merge(joined, relation)
                joined = len(rows.sets) - 1
        return pairs

    def _closed_with(self, left: RelationSet, chosen: int) -> tuple[int, ...]:
        """The relations of the multiway join with ``left`` that begins with one relation; this one alone if it closes no cycle."""
        graph, bound = self.graph, self.graph.bound(left)
        new = graph.relations[chosen].variables - bound
        others = (i for i in members(graph.inner & ~left & ~(1 << chosen)) if graph.relations[i].variables - bound == new)
        found = (chosen, *(i for i in others if graph.relations[i].variables & bound))
        return found if multiway_keys(graph, left, sum(1 << i for i in found)) is not None else (chosen,)


def _first_of_least(least: np.typing.NDArray[np.float64], partner: np.typing.NDArray[np.intp], count: int) -> int:
    """The part that is joined next, with its partner: among equals the first two relations as written, then the earliest result."""
    equal = np.flatnonzero(least == least.min())
    written = equal[equal < count]
    if len(written):
        return int(written[np.lexsort((written, partner[written]))[0]])
    return int(equal[0])
