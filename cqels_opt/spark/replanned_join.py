"""A query over each micro-batch alone: its joins run in the order that is cheapest, or as Spark plans them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.errors import LimitError
from cqels_opt.lod.locations import local_path
from cqels_opt.plans.explain import Format, check_request
from cqels_opt.relational.planner import JoinPlanner
from cqels_opt.runtime.output_owner import Owner, claim_file
from cqels_opt.runtime.phase_timer import PhaseTimer
from cqels_opt.spark.hadoop_state import HadoopFailure
from cqels_opt.spark.join_run import JoinOptions, JoinRun, StateFolder, analyzed
from cqels_opt.spark.replanning import LONGEST_WAIT, Estimated, Replanned, Replanner
from cqels_opt.state.claim import Claim
from cqels_opt.trace import display
from cqels_opt.trace.records import SPARK_PLAN, TraceRecord
from cqels_opt.trace.writer import TraceFile

Build: TypeAlias = Callable[[DataFrame, int], DataFrame]
"""Builds the DataFrame of the answers from a micro-batch and its id."""


@dataclass(slots=True)
class JoinedRows:
    """The answers of a micro-batch, which are computed by each action on them, unless they are counted before."""

    frame: DataFrame
    counted: bool = False

    def count(self) -> int:
        """See :class:`Answers`."""
        self.counted, kept = True, self.frame.persist()
        return int(kept.agg(f.count(f.lit(1))).collect()[0][0])

    def release(self) -> None:
        """See :class:`Answers`."""
        if self.counted:
            self.frame.unpersist()


class ReplannedJoin(JoinRun):
    """A query over each micro-batch alone. It keeps no rows, so it accepts any batch.

    ``then`` gets a DataFrame that has not run yet, as in a job without cqels-opt, so the time of the joins is that of the sink. If an
    action on a rebuilt query fails, ``then`` is called again with Spark's own plan.
    """

    _again = "run again with Spark's own plan"

    def __init__(self, spark: SparkSession | None, build: Build, options: JoinOptions) -> None:
        self._build, self.then, self._mode = build, options.then, options.mode
        self._trace = TraceFile(local_path(options.trace, "trace").absolute()) if options.trace is not None else None
        if self._trace is not None:  # of no checkpoint: a later run may continue it
            self._trace_hold = claim_file(self._trace.path, Owner(os.urandom(6).hex(), self._trace.path), 0)
        self._runner = self._runner_on(spark) if spark is not None else None
        self._replanner: Replanner | None = None
        self._totals = {"batches": 0, "elements": 0}
        self._state = StateFolder(options.state, temporary=False)
        folder, uri = self._state.folder, self._state.uri
        claim = Claim(folder, uri)
        self._failures = HadoopFailure(spark, uri, folder) if uri and spark is not None and folder is not None else None
        super().__init__(options.name, claim, options.limits, options.listener)

    @property
    def _last_planner(self) -> JoinPlanner | None:
        """See :class:`JoinRun`."""
        return self._replanner.planner if self._replanner is not None else None

    # ------------------------------------------------------------------ inspection
    def statistics(self) -> dict[str, Any]:
        """See :class:`JoinRun`; those of the last micro-batch whose rows were sampled."""
        with self._lock:
            return self._last_planner.summary() if self._last_planner is not None else {}

    def explain(self, format: Format = "text", alternatives: int = 0, analyze: bool = False) -> str:
        """See :class:`JoinRun`; it reports why Spark's own plan is used, if it is. The plans of ``analyze`` include your own action.

        ``analyze`` waits for relations that are being counted in the background, at most ten seconds.
        """
        check_request(format, alternatives)
        if analyze and self._replanner is not None:
            self._replanner.wait(LONGEST_WAIT)
        with self._lock:
            if analyze and self._runner is not None:
                found = self._replanner.estimated() if self._replanner is not None else Estimated()
                reason = self._replanner.reason if self._replanner is not None else None
                return analyzed(found.planner, format, alternatives, self.last, self._runner, reason, found.age)
            if self._replanner is None:
                return "There has been no micro-batch yet.\n" if format == "text" else "{}"
            return self._replanner.explain(format, alternatives)

    def wait_for_counts(self) -> None:
        """Waits until the relations have been counted in the background."""
        if self._replanner is not None:
            self._replanner.wait()

    def _repr_html_(self) -> str:
        with self._lock:
            plans = self.explain("json") if self._replanner is not None else ""
            return display.live(self.name, self.last, self.switches, self._totals, self.failure, plans)

    # ------------------------------------------------------------------ a batch
    def _fail(self, batch_id: int, error: LimitError) -> None:
        try:
            super()._fail(batch_id, error)
        finally:
            if self._failures is not None:
                self._failures.publish()

    def _batch(self, frame: DataFrame, number: int) -> None:
        session = frame.sparkSession
        if self._runner is None:
            self._runner = self._runner_on(session)
        self._begin(self._runner, session, number)
        if self._replanner is None:
            self._replanner = Replanner(self._mode, self._runner.parallelism, self.name, self._runner.page)
        clock, plain = PhaseTimer(), self._build(frame, number)
        clock.lap("ingest")
        found = self._replanner.rows(plain, frame)
        clock.lap("optimize")
        jobs = self._runner.jobs
        own = found.reason is not None
        with self._answered(JoinedRows(found.frame), number, lambda: None if own else JoinedRows(plain)) as (_, fallback):
            clock.lap("sink")
        self._replanner.observe(found)
        self._replanner.start_counting(plain, frame)
        self._record(number, found, clock, jobs, fallback)

    def _record(self, number: int, found: Replanned, clock: PhaseTimer, jobs: int, fallback: str | None) -> None:
        planner, elements = self._last_planner, found.elements or 0
        self.last = TraceRecord(
            number,
            self.name,
            time_range=None,
            frontier=None,
            elements=elements,
            windows=dict.fromkeys(planner.sources, elements) if planner is not None and found.elements is not None else {},
            deltas=planner.deltas() if planner is not None and found.elements else (),
            epoch=planner.statistics.epoch if planner is not None else 0,
            ms=clock.done(),
            jobs=jobs,
            fallback=fallback,
            cost_unit=planner.model.unit if planner is not None else None,
            notices=(f"{SPARK_PLAN}{found.reason}",) if found.reason is not None else (),
        )
        self._totals = {"batches": self._totals["batches"] + 1, "elements": self._totals["elements"] + elements}
        if self._trace is not None:
            self._trace.put([self.last])
        self._recorded(self.last)
