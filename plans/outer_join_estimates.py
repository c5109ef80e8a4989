"""The number of rows that a unit (OPTIONAL, MINUS, EXISTS) produces per row of its left side.

On one shared variable it is the join size divided by the rows of the left relation, and exact if the join size is: for a unit,
the statistics are Σ max(f, 1), Σ [f = 0] or Σ [f > 0] over the left rows, f the fan-out of the static side. Without a join size, the
distinct values of one side are assumed to contain those of the other (System R, Selinger et al. 1979). On several variables the join
sizes on each alone are bounds, and the tightest is taken: the least for an optional and a semi join, the greatest for an anti join.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import members

Floats = NDArray[np.float64]


class UnitRatios:
    """The edges of a graph's units. ``several`` are the units that are joined on more than one variable."""

    def __init__(self, graph: QueryGraph) -> None:
        ends = [(e.right, e.left) if 1 << e.left & graph.units else (e.left, e.right) for e in graph.edges]
        self.edges = np.array([bool(1 << unit & graph.units) for _, unit in ends], bool)
        self._row = np.array([row for row, _ in ends], np.intp)
        self._unit = np.array([unit for _, unit in ends], np.intp)
        self._kind = np.array([graph.relations[unit].kind for _, unit in ends], object)
        self._flipped = np.array([edge.left == unit for edge, (_, unit) in zip(graph.edges, ends)], bool)
        self.several = [k for k in members(graph.units) if len(graph.relations[k].joined_on) > 1]
        self._takes_greatest = [graph.relations[k].kind == "anti" for k in self.several]
        self._edges_of = [np.flatnonzero(self._unit == k) for k in self.several]

    def ratios(self, rows: Floats, join_size: Floats, left: Floats, right: Floats, least: float) -> Floats:
        """Rows per left row on each edge, defined for the edges of units; ``left`` and ``right`` are the distinct values at its ends.

        ``join_size`` is NaN if it is unknown; an anti join then keeps a share of at least ``least``.
        """
        into, unit_rows = rows[:, self._row], rows[:, self._unit]
        own = np.where(self._flipped, left, right)
        most = np.maximum(left, right)
        matched = np.minimum(np.minimum(own, unit_rows) / most, 1.0)
        assumed = np.where(self._kind == "anti", np.maximum(1 - matched, least), matched)
        assumed = np.where(self._kind == "optional", unit_rows / most, assumed)
        known = np.where((into > 0) & ~np.isnan(join_size), join_size / np.where(into > 0, into, 1.0), assumed)
        clamped: Floats = np.where(self._kind == "optional", np.maximum(known, 1.0), np.minimum(known, 1.0))
        return clamped

    def pairs(self, rows: Floats, ratios: Floats) -> Floats:
        """The rows of a unit joined to one relation."""
        found: Floats = rows[:, self._row] * ratios
        return found

    def combined(self, ratios: Floats) -> Floats:
        """Rows per left row of each of ``several``."""
        columns = [
            ratios[:, edges].max(axis=1) if greatest else ratios[:, edges].min(axis=1)
            for edges, greatest in zip(self._edges_of, self._takes_greatest)
        ]
        return np.stack(columns, axis=1) if columns else np.empty((len(ratios), 0))

    def edges_of(self, several: int) -> list[int]:
        """The edges that decide a column of :meth:`combined`."""
        found: list[int] = self._edges_of[several].tolist()
        return found
