"""Which delta sources have their statistics read for a batch. Of the others only the rows of relations are followed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from cqels_opt.plans.base_estimates import BaseEstimates, Followed, number_of
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.reoptimization_budget import ReadingBudget, reading_price
from cqels_opt.plans.statistics import Statistics


class StatisticsReading:
    """The readings of the statistics of a block's delta sources, under their ``budget``. ``read`` are the sources of the last batch."""

    def __init__(self, graph: QueryGraph, base: BaseEstimates) -> None:
        self.graph, self.base = graph, base
        self.budget = ReadingBudget(base.rows_read)
        self.read: set[str] = set()
        deltas = {graph.index[source] for source in base.sources}
        self._price = reading_price(len(graph.edges), sum({edge.left, edge.right} <= deltas for edge in graph.edges))
        self._joined = {s: sorted({e.variable for e in graph.edges if graph.index[s] in (e.left, e.right)}) for s in base.sources}
        self._values: dict[str, list[float]] = {}  # distinct values of the last deltas, where these decide what is read

    def begin(self, statistics: Mapping[str, Statistics], seconds: float, planned: Collection[str]) -> dict[str, Followed]:
        """Decides which sources are read for a batch; returns the others, with the rows of their relations.

        Reading the size of a join with a static relation takes ``seconds`` for a source; 0: all are read. Only sources that are ``planned``
        can be followed. Without rows in its delta a source has nothing to plan for.
        """
        self._values, followed = {}, dict[str, Followed]()
        if seconds:
            self._values = {source: self._distinct_values(source, statistics[source]) for source in self.base.sources}
            followed = self.as_read(planned, statistics)
            moving = {s: now.rows.tolist() for s, now in followed.items() if now.rows[self.graph.index[s]] != 0}
            if self.budget.due(seconds * self._price, moving, self._values):
                followed = {source: now for source, now in followed.items() if source not in moving}
        self.read = {*self.base.sources} - followed.keys()
        return followed

    def as_read(self, sources: Iterable[str], statistics: Mapping[str, Statistics]) -> dict[str, Followed]:
        """The sources whose statistics have been read, with these and their rows in the batch."""
        read = {source: self.budget.last[source].statistics for source in sources if source in self.budget.last}
        return {s: Followed(np.array(before), self.base.cardinalities(statistics[s])) for s, before in read.items()}

    def note(self, source: str) -> None:
        """The statistics of a source have been read."""
        self.read.add(source)
        self.budget.read(source, self.base.raw[self.base.sources.index(source)].tolist(), self._values.get(source, ()))

    def _distinct_values(self, source: str, known: Statistics) -> list[float]:
        """The distinct values of each variable on which the delta of a source is joined; NaN: not known."""
        return [number_of(known.distinct(source, variable)) for variable in self._joined[source]]
