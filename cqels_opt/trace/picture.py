"""A trace as the page's data, while its records come in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cqels_opt.trace.charts import Charts, query_json
from cqels_opt.trace.history import Histories
from cqels_opt.trace.records import TraceRecord

VERSION = 1
"""Of the page's data; a change that a reader of them would not survive has another."""
MOST_VALUES = 300_000
"""Points of all series of a page together: about five megabytes."""
FEWEST_POINTS = 60


class Picture:
    """The data of the page. With ``newest``, see :class:`Histories`, its memory is bounded however long a job runs."""

    def __init__(self, newest: int | None = None) -> None:
        self.histories = Histories(newest)
        self._charts: dict[str, Charts] = {}
        self.batch: int | None = None

    def add(self, records: Iterable[TraceRecord]) -> None:
        """Takes the next records."""
        for record in records:
            self.histories.add(record)
            if record.query not in self._charts:
                self._charts[record.query] = Charts()
            self._charts[record.query].add(record)
            self.batch = record.batch

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries in the order in which they first occurred."""
        return self.histories.queries

    def query(self, query: str, merged: int = 1) -> dict[str, Any]:
        """The data of one query. Raises KeyError where no record was of it."""
        return query_json(self.histories.of(query), self._charts[query], merged)

    def to_json(self, title: str) -> dict[str, Any]:
        """The data of all queries, with fewer points each where these are many."""
        merged, values = 1, sum(charts.values for charts in self._charts.values())
        points = max((len(charts.points) for charts in self._charts.values()), default=0)
        while values > MOST_VALUES * merged and points >= 2 * merged * FEWEST_POINTS:
            merged *= 2
        return {"version": VERSION, "title": title, "queries": [self.query(query, merged) for query in self.queries]}
