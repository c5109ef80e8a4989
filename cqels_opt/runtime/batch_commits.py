"""What a batch commits, and when: its record is written at once, or one record is written for several batches."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

from cqels_opt.runtime.micro_batch import MicroBatch
from cqels_opt.runtime.optimizer_checkpoint import optimizer_file, write_optimizer_state
from cqels_opt.runtime.quotas import Quotas
from cqels_opt.runtime.run_state import RunState
from cqels_opt.state.retention import Retention
from cqels_opt.storage import sealed_files

BETWEEN_RECORDS = ("slots", "results")
"""Folders of which most files are deleted before a commit record names them, unless each batch has a record."""

MOST_KEPT = 1 << 26
"""Bytes of files that are kept in memory between two commit records; after more of them the next record is written earlier."""


class BatchCommits:
    """Commits the batches of a run, and deletes the files that no record needs any longer."""

    def __init__(self, driver: RunState, quotas: Quotas) -> None:
        self.driver, self._quotas = driver, quotas
        self._written = -math.inf  # when the last commit record was written
        self._kept = sealed_files.kept()  # when it was written

    def commit(self, batch: MicroBatch) -> None:
        """Writes the commit record of a batch, and the files that it names; schedules the deletion of files that no longer count."""
        driver, number = self.driver, batch.number
        files, reported = batch.done.after(batch.files), self._reported(batch)
        retention = Retention(driver.folder, driver.programs, driver.tables, driver.all_streams)
        kept_files = retention.after(files, reported, driver.state, driver.frontier.value)
        for stream, bound in kept_files.bounds.items():
            if bound is not None:
                driver.ingest_state.forget_times(stream, bound)
        failures = driver.compaction.failures
        live, dropped = driver.compaction.absorb_finished(kept_files.files, number, driver.frontier.value), kept_files.dropped
        totals = dict(driver.state.totals)
        added = {
            **batch.totals(driver.planners, frozenset(driver.streams)),
            "failed merges": driver.compaction.failures - failures,
        }
        totals |= {name: totals.get(name, 0) + amount for name, amount in added.items()}
        digests = {**driver.state.digests, **driver.sink.digests}
        state = replace(
            driver.state,
            batch=number,
            files=live,
            frontier=driver.frontier.state(),
            reported=reported,
            dropped=dropped,
            lengths=batch.lengths,
            totals=totals,
            ended=driver.frontier.ended,
            renewed=[name for name in driver.state.renewed if name in batch.steps and len(batch.steps[name].instants) < 2],
            displaced=list(driver.scheme.displaced),
            query=driver.identity_digest,
            digests=digests if driver.trace is None else {**digests, "trace": driver.trace.digest},
        )
        gone = {f.path for f in [*driver.state.files, *files]} - {f.path for f in live}
        gone |= {path for f in batch.finished for path in (f.path, f.fed) if path}
        gone |= {r.path for r in batch.rejected if r.spooled}
        gone |= driver.catalog.forget_pages() if driver.catalog is not None else set()
        driver.schedule_deletion(number, gone)
        driver.state = state
        has_failure = any(failed == number for failed, _ in self._quotas.failures.values())  # it is of this cut of the input
        if has_failure or self.since_record >= driver.options.commit_every or sealed_files.kept() - self._kept > MOST_KEPT:
            self.write_record()
        else:
            driver.log.note(number)
        if not driver.options.commit_every:
            driver.log.forget_reached()
        if driver.catalog is not None:
            driver.catalog.committed(driver.log.oldest)

    def write_record(self) -> None:
        """Writes the commit record of the last batch, durably. With it all batches are committed whose records were not written."""
        driver, state = self.driver, self.driver.state
        number = state.batch
        statistics = {state.optimizer, *state.statistics}
        used = write_optimizer_state(driver.folder, number, statistics, driver.planners, driver.ingest_state.counted)
        state.optimizer, state.statistics = optimizer_file(number), used
        before = {file.path for file in state.files}
        state.files = driver.ingest_state.write(number, state.files, driver.frontier.value)
        driver.schedule_deletion(number, before - {file.path for file in state.files})
        if driver.options.commit_every:
            named = {Path(file.path).name for file in state.files}
            for part in BETWEEN_RECORDS:
                sealed_files.settle(driver.folder / part, named)
        driver.deletion.wait()
        driver.log.write(state)
        self._written, self._kept = time.monotonic(), sealed_files.kept()
        driver.schedule_deletion(number, statistics - {"", state.optimizer, *used})
        self._delete_scheduled(min(number - 2, driver.log.oldest))

    @property
    def since_record(self) -> float:
        """Seconds since the last commit record was written."""
        return time.monotonic() - self._written

    def _reported(self, batch: MicroBatch) -> dict[str, int]:
        """The instant that each query reported last."""
        steps = {p.id: batch.steps[p.id] for p in self.driver.programs}
        return {**self.driver.state.reported, **{name: int(s.instants[-1]) for name, s in steps.items() if len(s.instants) > 1}}

    def _delete_scheduled(self, upto: int) -> None:
        """Deletes files that no longer count since a batch up to this one, which no kept record names."""
        driver, reading = self.driver, self.driver.compaction.reading
        if driver.catalog is not None:
            reading |= {page.path for page in driver.catalog.pages}  # of a query that was removed and added again
        ready = [paths for batch, paths in driver.scheduled_deletions if batch <= upto]
        driver.deletion.begin(set().union(*ready) - reading)
        kept = [(upto, paths & reading) for paths in ready if paths & reading]  # until nothing reads them
        driver.scheduled_deletions = [*kept, *driver.scheduled_deletions[len(ready) :]]
