"""The trace records of a batch: one per query, with the notices of the batch and how far it is behind its input."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cqels_opt.errors import EngineWarning
from cqels_opt.operators.observed import Observed
from cqels_opt.runtime.ingest import IngestReport
from cqels_opt.runtime.micro_batch import MicroBatch
from cqels_opt.runtime.rejected_elements import SAMPLE
from cqels_opt.runtime.run_state import RunState
from cqels_opt.runtime.trace_builder import trace_record
from cqels_opt.trace.records import Lag, StoreVersions, TraceRecord
from cqels_opt.windows.intervals import BEFORE_TIME

MOST_NOTICES = 20
"""Sentences per batch about files of live folders."""


class BatchRecords:
    """Makes the records of a run's batches."""

    def __init__(self, driver: RunState) -> None:
        self.driver = driver
        self._texts_written = set[str]()  # queries whose text is in the trace

    def forget(self) -> None:
        """The next record of each query has its text again: the trace may have been cut back."""
        self._texts_written.clear()

    def notices(self, batch: MicroBatch) -> tuple[str, ...]:
        """The sentences of a batch: files that have changed or are left, the first rejected elements, and values that are not of their
        column's type.

        To be called once per batch: files note that their lines have been read.
        """
        driver = self.driver
        self._note_untyped(batch)
        changed = driver.options.files.take(batch.reports) if driver.options.files is not None else []
        more = [f"{len(changed) - MOST_NOTICES:,} more such files"] if changed[MOST_NOTICES:] else []
        bad = [r for report in batch.reports for r in report.rejected.sample]
        return (
            *driver.notices,
            *changed[:MOST_NOTICES],
            *more,
            *(f"rejected: {driver.rejects.describe(r)}" for r in bad[:SAMPLE]),
        )

    def of(
        self,
        batch: MicroBatch,
        observed: Mapping[str, Mapping[str, Observed]],
        jobs: int,
        notices: tuple[str, ...],
        failed: Mapping[str, str],
    ) -> list[TraceRecord]:
        """The records of a batch that is finished but for its commit; ``failed`` has the programs that failed with it, and why."""
        driver, ms, lag = self.driver, batch.clock.done(), self._lag(batch.number, batch.reports)
        refreshed = driver.catalog.refreshed if driver.catalog is not None else None
        static = None if refreshed is None else StoreVersions(refreshed.now, refreshed.was)
        records = [
            replace(
                trace_record(p, driver.planners[p.id], batch, observed.get(p.id, {}), driver.frontier, ms, jobs, lag),
                cost_unit=driver.planners[p.id].cost_unit,
                text=self._text_once(p.id),
                failed=failed.get(p.id),
            )
            for p in driver.programs
        ]
        if static is not None:
            records = [replace(record, static=static) for record in records]
        return [replace(record, notices=notices) for record in records] if notices else records

    def _text_once(self, program: str) -> str | None:
        """The text of a query that has no trace record since the state was restored."""
        if self.driver.catalog is None or program in self._texts_written:
            return None
        self._texts_written.add(program)
        return self.driver.catalog.text(program)

    def _note_untyped(self, batch: MicroBatch) -> None:
        """Reports values that are null in the answers because they are not of their column's type: each batch in the trace."""
        for (program, variable), count in batch.untyped().items():
            type_of = dict(self.driver.planners[program].program.types)[variable]
            values = f"values of ?{variable} in the answers of {program} are not of the type {type_of}: they are null"
            self.driver.notices.append(f"{count:,} {values}")
            warnings.warn(f"some {values}; the trace counts them", EngineWarning, stacklevel=2)  # which Python prints once

    def _lag(self, number: int, reports: Sequence[IngestReport]) -> Lag:
        """How far the frontier is behind the newest input; if that is not known, behind the newest element that was read."""
        frontier, known = self.driver.frontier, self.driver.options.waiting if self.driver.trace is not None else None
        newest, waiting = known(number, reports) if known else (None, None)
        newest = frontier.greatest if newest is None else newest
        behind = newest - frontier.value if newest is not None and frontier.value > BEFORE_TIME else None
        return Lag(max(0, behind) if behind is not None else None, waiting)
