"""Builds the page's data from a trace, record by record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cqels_opt.trace.charts import Charts, query_json
from cqels_opt.trace.history import Histories
from cqels_opt.trace.records import TraceRecord

VERSION = 1
"""The version of the page's data; it changes with each incompatible change."""
MOST_VALUES = 300_000
"""Maximum points of all series of a page together: about five megabytes."""
FEWEST_POINTS = 60
MOST_INDEXED = 200
"""Maximum queries of a running job in the list of its page, which is computed with every batch."""


class Picture:
    """The data of the page. With ``newest`` (see :class:`Histories`) memory is bounded however long a job runs."""

    def __init__(self, newest: int | None = None) -> None:
        self.histories = Histories(newest)
        self._charts: dict[str, Charts] = {}
        self.batch: int | None = None

    def add(self, records: Iterable[TraceRecord]) -> None:
        """Adds the next records."""
        for record in records:
            self.histories.add(record)
            if record.query not in self._charts:
                self._charts[record.query] = Charts()
            self._charts[record.query].add(record)
            self.batch = record.batch

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries in order of first occurrence."""
        return self.histories.queries

    def query(self, query: str, merged: int = 1) -> dict[str, Any]:
        """The data of one query. Raises KeyError for a query without records."""
        return query_json(self.histories.of(query), self._charts[query], merged)

    def index(self) -> list[dict[str, Any]]:
        """The list of queries, with what adapting saved in each."""
        found = []
        for history in map(self.histories.of, self.queries[:MOST_INDEXED]):
            worst = max((one.p95 for one in history.estimates), default=None)
            entry = {"query": history.query, "headline": history.headline[0], "batches": history.batches}
            spent = {"ms": history.ms.total, "joins": history.savings.measured}
            found.append({**entry, **spent, "switched": history.switched, "worst": worst})
        return found

    def to_json(self, title: str) -> dict[str, Any]:
        """The data of all queries; merges points if there are too many."""
        merged, values = 1, sum(charts.values for charts in self._charts.values())
        points = max((len(charts.points) for charts in self._charts.values()), default=0)
        while values > MOST_VALUES * merged and points >= 2 * merged * FEWEST_POINTS:
            merged *= 2
        return {"version": VERSION, "title": title, "queries": [self.query(query, merged) for query in self.queries]}
