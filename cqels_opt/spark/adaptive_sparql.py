"""A query as a function for ``foreachBatch`` of an existing job."""

from __future__ import annotations

from pathlib import Path

from cqels_opt.errors import CheckpointError
from cqels_opt.plans.explain import Format
from cqels_opt.runtime.limits import Limits
from cqels_opt.spark.drop_in import DropIn
from cqels_opt.spark.messages import reading_of
from cqels_opt.spark.registered_query import CompiledQuery
from cqels_opt.spark.sources import Incoming
from cqels_opt.spark.stream import DataFrame, StreamRun
from cqels_opt.state.claim import Claim
from cqels_opt.trace.listener import ListenerLike


class Adaptive(DropIn):
    """The result of :meth:`Engine.adaptive`: call it with a micro-batch; it reports plans, switches and statistics."""

    def __init__(
        self,
        query: CompiledQuery,
        run: StreamRun,
        incoming: Incoming,
        claim: Claim,
        limits: Limits,
        listener: ListenerLike | None,
    ) -> None:
        self.query, self.run, self._incoming, self._kept = query, run, incoming, claim.state is not None
        run.ordered = incoming.order is not None
        if incoming.payloads:
            run.messages = reading_of(incoming.payloads, run.driver.frontier)
        super().__init__(query.id, claim, limits, listener)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        driver = self.run.driver
        if not self._kept and not driver.options.allow_gap and driver.state.batch < 0 and batch_id != 0:
            raise CheckpointError(
                f"the job continues at batch {batch_id}, but adaptive() has no state of the batches before: give it state=FOLDER; "
                "allow_gap=True continues without them"
            )
        self.run.batch(self._incoming.rows(frame), batch_id)
        self._recorded(*self.run.last)

    def _cancel(self) -> None:
        self.run.runner.cancel()

    def __repr__(self) -> str:
        return f"Adaptive({self.query.id!r}, {self.run.progress}{'' if self.failure is None else ', failed'})"

    def _repr_html_(self) -> str:
        return self.run.live(self.query.id, self.failure)

    @property
    def rejects(self) -> Path | None:
        """The file of rejected input, one JSON object per line with its ``reason``; None while there is none."""
        path = self.run.driver.options.rejects
        return path if path is not None and path.exists() else None

    @property
    def switches(self) -> int:
        """The number of plan changes of all delta sources."""
        return self.run.switches

    def plans(self) -> dict[str, str]:
        """The current plan of each delta source."""
        return self.run.plans()[self.query.id]

    def explain(self, format: Format = "text", alternatives: int = 0, analyze: bool = False) -> str:
        """The plans of the last micro-batch, with the estimated and the observed rows of their operators; see :meth:`StreamRun.explain`."""
        return self.run.explain(self.query.id, format, alternatives, analyze)

    def statistics(self) -> dict[str, object]:
        """The current statistics, by block."""
        return dict(self.run.statistics()[self.query.id])
