"""The memo of a block: for every connected sub-pattern *all* its alternatives, and Ψ, its least cost (CQELS report, §5).

Re-costing is incremental. A changed leaf statistic changes the rows of some states; only the alternatives that
read one of those, or a side of which has another Ψ, are priced again. Ψ is the minimum over all retained alternatives, so it
rises as well as falls. (Figure 4 of the report tests only ``<``, and keeps the old value when its cheapest
alternative becomes more expensive.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.cardinality import Estimator, StateTable
from cqels_opt.plans.cost import CostModel, JoinOperator
from cqels_opt.plans.dpccp import Pair
from cqels_opt.plans.memo_layout import Floats, Ints, Level, MemoLayout, build
from cqels_opt.plans.relation_set import RelationSet, members

EACH_ROW = 2.0
"""The cost per row of a filter that is an operator, as a multiple of ``Constants.evaluate``: finding rows with equal arguments."""


def candidates(proposed: Floats, added: Ints) -> Floats:
    """The candidates of multiway joins: the rows of their left sides times the expected smallest fan-out of a row.

    ``proposed`` has, on its last axis, the rows of the left side joined with each of the ``added`` relations. The fan-outs of a row are
    taken as independent and exponentially distributed, so the mean of the smallest is one over the sum of the reciprocals of the means.
    That is never more than the least of ``proposed``; if every row has the same fan-outs, there are up to ``added`` times as many.
    """
    with np.errstate(divide="ignore", over="ignore"):
        reciprocals = np.where(np.arange(proposed.shape[-1]) < added[:, None], 1.0 / proposed, 0.0)
        found: Floats = 1.0 / reciprocals.sum(axis=-1)
    return found


class Places(NamedTuple):
    """Some alternatives of a memo, by operator, and all states that they read."""

    alternatives: Sequence[tuple[int, Ints]]
    states: Ints


class Memo:
    """All alternatives of one block for its delta sources, with the costs as of the last update.

    ``phi`` is the cost of an alternative's own join, ``total`` adds the Ψ of its sides, and ``psi`` is the least total of a
    node. ``recosted`` counts the alternatives that the last update priced.
    """

    def __init__(
        self, estimator: Estimator, pairs: Iterable[Pair], model: CostModel, sources: Sequence[str] | None = None
    ) -> None:
        """For some of the delta ``sources`` (default: all)."""
        self.base, self.graph, self.model = estimator.base, estimator.graph, model
        self.shape: MemoLayout = build(self.graph, self.base.sources if sources is None else tuple(sources), pairs, model)
        self.table = StateTable(estimator, self.shape.states, self.shape.sources)
        found = self.shape.alternatives.operator
        self._by_operator = [
            (operator, np.flatnonzero(found == operator)) for operator in JoinOperator if (found == operator).any()
        ]
        leaf_sets = self.shape.node_sets[: self.shape.leaves]
        offsets = np.array(self.shape.node_source[: self.shape.leaves], np.intp) * len(self.shape.states)
        self._leaf_rows: Ints = offsets + np.array([self.shape.state_of[leaf, 0] for leaf in leaf_sets], np.intp)
        self._leaf_covers = [tuple(members(self.shape.covered[leaf])) for leaf in leaf_sets]
        self._weights = np.array(list(self.graph.weights.values()), np.float64)
        self._set_weights()
        self.psi: Floats = np.zeros(self.shape.null + 1)
        self.phi: Floats = np.zeros(len(found))
        self.total: Floats = np.zeros(len(found))
        owner = np.array(self.shape.node_source, np.intp)[self.shape.alternatives.node]
        self._retained: list[int] = np.bincount(owner, minlength=len(self.shape.sources)).tolist()
        self.recosted = 0
        self._postponed = np.zeros_like(self.base.factors, bool)
        self.recost_everything()

    def postpone(self, changed: NDArray[np.bool_]) -> None:
        """Has the next :meth:`refresh` price also what depends on these factors."""
        self._postponed |= changed

    def refresh(self, changed: NDArray[np.bool_] | None = None) -> int:
        """Prices again what depends on the factors that ``changed`` (in the shape of ``base.factors``; None: none of them, only
        corrections may have); returns how many alternatives.

        The memo is afterwards equal to one that is built from the same statistics.
        """
        changed = self._postponed.copy() if changed is None else changed | self._postponed
        if not changed.any() and not self.table.pending:
            self.recosted = 0
            return 0
        self._postponed[:] = False
        moved_rows = self.table.update(changed)
        alternatives = self.shape.alternatives
        stale = np.zeros(len(self.total), bool)
        for rows in alternatives.read_rows:
            stale |= moved_rows[rows] if rows.ndim == 1 else moved_rows[rows].any(axis=1)
        moved = np.zeros(self.shape.null + 1, bool)
        scans = self._scan_costs(self.table.rows)
        moved[: self.shape.leaves] = scans != self.psi[: self.shape.leaves]
        self.psi[: self.shape.leaves] = scans
        self._price(np.flatnonzero(stale))
        self.recosted = 0
        for level in self.shape.levels:
            span = level.alternatives
            reads = stale[span] | moved[alternatives.left[span]] | moved[alternatives.right[span]]
            chosen = np.flatnonzero(reads)
            if len(chosen):
                chosen += span.start
                self.total[chosen] = self.phi[chosen] + self.psi[alternatives.left[chosen]] + self.psi[alternatives.right[chosen]]
                self.recosted += len(chosen)
                least = self._least(level)
                moved[level.nodes] = least != self.psi[level.nodes]
                self.psi[level.nodes] = least
        return self.recosted

    def places(self, chosen: Ints, states: Ints) -> Places:
        """Some alternatives and ``states``, for :meth:`priced_at`."""
        known = self.shape.alternatives
        own = known.operator[chosen]
        read = np.concatenate([states, self._leaf_rows, *(rows[chosen].ravel() for rows in known.read_rows)])
        return Places([(operator, chosen[own == operator]) for operator in set(own.tolist())], np.unique(read))

    def priced_at(self, places: Places) -> Memo:
        """A copy with the costs of the leaves and of some alternatives, and the rows of some states, under the current statistics.

        All other costs are those of the last :meth:`refresh`, and so are all of this memo: its next one has the same to do as without.
        """
        found = copy(self)
        found.table = self.table.estimated_at(places.states)
        found.psi, found.phi = self.psi.copy(), self.phi.copy()
        found.psi[: self.shape.leaves] = self._scan_costs(found.table.rows)
        for operator, here in places.alternatives:
            found.phi[here] = self._join_costs(JoinOperator(operator), here, found.table.rows)
        return found

    def set_filter_weights(self, weights: Mapping[str, float]) -> None:
        """Sets the weights of some filters and prices everything again."""
        fresh = np.array([weights.get(name, known) for name, known in zip(self.graph.weights, self._weights.tolist())])
        if (fresh != self._weights).any():
            self._weights = fresh
            self._set_weights()
            self.recost_everything()

    def _set_weights(self) -> None:
        self._filters: Floats = self.shape.alternatives.weights(self._weights)
        self._leaf_filters: Floats = np.array([self._weights[list(covers)].sum() for covers in self._leaf_covers])

    def recost_everything(self) -> int:
        """Prices every alternative; :meth:`refresh` must always give the same costs."""
        self.table.update(np.ones_like(self.base.factors, bool))
        self._postponed[:] = False
        priced = self.under(self.table.rows)
        self.psi, self.phi, self.total = priced.psi, priced.phi, priced.total
        self.recosted = len(self.total)
        return self.recosted

    def under(self, rows: Floats) -> Memo:
        """A copy that is priced for other rows of the states, which are on the last axis; its costs have the same axes before the last."""
        found, alternatives, cases = copy(self), self.shape.alternatives, rows.shape[:-1]
        found.psi, found.phi, found.total = (np.zeros((*cases, len(known))) for known in (self.psi, self.phi, self.phi))
        found.psi[..., : self.shape.leaves] = self._scan_costs(rows)
        for operator, here in self._by_operator:
            found.phi[..., here] = self._join_costs(operator, here, rows)
        for level in self.shape.levels:
            span = level.alternatives
            left, right = found.psi[..., alternatives.left[span]], found.psi[..., alternatives.right[span]]
            found.total[..., span] = found.phi[..., span] + left + right
            found.psi[..., level.nodes] = found._least(level)
        return found

    def _least(self, level: Level) -> Floats:
        """Ψ of the nodes of a level; a pre-computed static pattern is free in the cost model of the report."""
        least: Floats = np.minimum.reduceat(self.total[..., level.alternatives], level.starts, axis=-1)
        least[..., self.shape.free[level.nodes]] = 0.0
        return least

    def _scan_costs(self, rows: Floats) -> Floats:
        scanned = rows[..., self._leaf_rows]
        return self.model.scan(scanned, scanned * self._leaf_filters)

    def _price(self, chosen: Ints) -> None:
        """Computes Φ of the chosen alternatives."""
        for operator, _ in self._by_operator:
            here = chosen[self.shape.alternatives.operator[chosen] == operator]
            if len(here):
                self.phi[here] = self._join_costs(operator, here, self.table.rows)

    def _join_costs(self, operator: JoinOperator, here: Ints, rows: Floats) -> Floats:
        """Φ of some alternatives of one operator."""
        found = self.shape.alternatives
        produced = rows[..., found.produced_rows[here]]
        left, right = rows[..., found.left_rows[here]], rows[..., found.right_rows[here]]
        filtered = produced * self._filters[here]
        if operator is JoinOperator.MULTIWAY:
            found_by = candidates(rows[..., found.proposed_rows[here]], found.added[here])
            look_ups = left * found.added[here] + found_by * (found.added[here] - 1)
            largest = rows[..., found.added_rows[here]].max(axis=-1)
            return self.model.join(operator, look_ups, largest, produced + found_by, filtered)
        if operator is JoinOperator.PROBE:
            left = left * found.indexes[here]
        if operator is JoinOperator.FILTER:
            filtered = left * EACH_ROW + np.minimum(left, rows[..., found.distinct_rows[here]]) * self._filters[here]
        return self.model.join(operator, left, right, produced, filtered)

    def of_source(self, source: str) -> Memo:
        """A copy for the alternatives of one delta source alone, over the same statistics; pricing it does not change this memo."""
        number = self.shape.sources.index(source)
        owner = np.array(self.shape.node_source, np.intp)[self.shape.alternatives.node]
        found, keep, states = copy(self), np.flatnonzero(owner == number), len(self.shape.states)
        found.shape = self.shape.of_source(number, keep)
        found.table = self.table.of_source(number)
        found._by_operator = [
            (operator, np.flatnonzero(found.shape.alternatives.operator == operator)) for operator, _ in self._by_operator
        ]
        found._leaf_rows = np.clip(self._leaf_rows - number * states, 0, states - 1)  # only those of the source are read
        found._filters = self._filters[keep]
        found.psi, found.phi, found.total = self.psi.copy(), self.phi[keep], self.total[keep]
        found._postponed = self._postponed.copy()
        return found

    # ------------------------------------------------------------------ reading
    def root(self, source: str) -> int:
        """The node of a delta source for its whole block."""
        return self.shape.node_of[self.shape.sources.index(source), self.graph.everything]

    def cheapest_join(self, node: int) -> float:
        """The least Φ of the joins that make a node, whatever their inputs cost; 0 of a leaf."""
        return float(self.phi[self.shape.alternatives_of(node)].min(initial=np.inf)) if node >= self.shape.leaves else 0.0

    def has(self, relations: RelationSet) -> bool:
        """Whether the rows of a set are estimated."""
        return (relations, self.graph.covered_filters(relations)) in self.shape.state_of

    def rows(self, source: str, relations: RelationSet) -> float:
        """The estimated rows of a set that the memo has, after all its filters."""
        state = self.shape.state_of[relations, self.shape.covered[relations]]
        return float(self.table.rows[self._positions(source, [state])][0])

    def uncorrected_rows(self, source: str, sets: Iterable[RelationSet]) -> list[float]:
        """The same of several sets from the statistics alone, without feedback."""
        states = [self.shape.state_of[relations, self.shape.covered[relations]] for relations in sets]
        found: list[float] = self.table.uncorrected(self._positions(source, states)).tolist()
        return found

    def _positions(self, source: str, states: Sequence[int]) -> Ints:
        """The places of states of a source in the table of rows."""
        return np.array(states, np.intp) + self.shape.sources.index(source) * len(self.shape.states)

    def retained(self, source: str) -> int:
        """The number of alternatives of a delta source."""
        return self._retained[self.shape.sources.index(source)]
