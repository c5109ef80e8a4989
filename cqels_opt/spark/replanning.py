"""Chooses the join order of a micro-batch, if that pays off; otherwise Spark's own plan runs, and nothing is counted.

The rows of the micro-batch are sampled, the other relations are counted once per version in the background. With these the optimizer
prices all join orders. If the order of the query is within :data:`TIE` of the cheapest one, the query is left as it is. How soon the
next micro-batch is sampled depends on how much a wrong order could cost: the ratio of the most expensive order to the cheapest one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.planner.calibration_store import known
from cqels_opt.plans import Plan
from cqels_opt.plans.cost_models.spark import SparkCost
from cqels_opt.relational.counting import Counted
from cqels_opt.relational.planner import Counts, Format, JoinPlanner, JoinShape, ObservedJoin, OrderCosts
from cqels_opt.spark.catalyst import Catalyst, Side, analyzed, count_of
from cqels_opt.spark.join_inputs import broadcast_bytes, row_width, sampled_keys, static_counts
from cqels_opt.spark.join_query import JoinQuery, NotReadableError, read
from cqels_opt.spark.session import shuffle_partitions

TIE = 0.1
"""The order of the query is kept if the cheapest one saves less than this share of it."""

SPREADS = ((1.05, 64), (1.5, 8))
"""Up to these ratios of the most expensive order to the cheapest one, every n-th micro-batch is sampled at most; above, each is."""

WHOLE_SCAN = 0.9
"""The share of the estimated rows of a micro-batch from which an action has read all of them: estimates of large ones are inexact."""

UNREADABLE = 64
"""The number of micro-batches until a query is read again that has no joins to reorder."""

Identity = tuple[object, ...]
_log = logging.getLogger("cqels_opt.join")


@dataclass(frozen=True, slots=True)
class Replanned:
    """The rows of a micro-batch as a DataFrame that has not run yet. ``reason``: why Spark's own plan is used; None: it is not."""

    frame: DataFrame
    reason: str | None = None
    observations: tuple[Any, ...] = ()
    sampled: bool = False
    stream_rows: int = 0


@dataclass(slots=True)
class _Relations:
    """The counts of relations by identity, those still being counted, and bytes per row."""

    counts: dict[Identity, Counts] = field(default_factory=dict)
    counting: dict[Identity, Future[None]] = field(default_factory=dict)


class Replanner:
    """The optimizer of one query over micro-batches. ``mode`` is ``adaptive``, or a mode that always decides the order itself."""

    def __init__(self, mode: str | Mapping[str, Plan], slots: int) -> None:
        self._mode, self._slots = mode, slots
        self._catalyst: Catalyst | None = None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="cqels-opt counts")
        self._relations = _Relations()
        self._identities: dict[str, Identity] = {}
        self._shape: JoinShape | None = None
        self._widths: dict[str, float] = {}
        self._pause, self._interval = 0, 1
        self._batches = 0
        self.planner: JoinPlanner | None = None
        self.reason: str | None = "no micro-batch has been planned yet"

    # ------------------------------------------------------------------ a batch
    def rows(self, plain: DataFrame, stream: DataFrame) -> Replanned:
        """The rows of the DataFrame ``plain``, which reads the micro-batch ``stream``, in the cheapest order."""
        self._batches += 1
        if self._mode == "adaptive" and (self._pause > 0 or self._batches == 1):
            self._pause = max(0, self._pause - 1)
            return Replanned(plain, self.reason if self._batches > 1 else "the first micro-batch")
        try:
            query = read(self._catalyst_of(plain.sparkSession), plain, stream)
            if self._mode == "adaptive" and len(query.relations) < 3:
                raise NotReadableError("there is one join, so there is no order to choose")
        except NotReadableError as error:
            return self._leave(plain, str(error), UNREADABLE)
        try:
            return self._planned(query, plain)
        except (
            PySparkException,
            Py4JError,
        ) as error:  # such as a key that cannot be computed for rows that another join would drop
            return self._leave(plain, f"it could not be planned: {_first_line(error)}", UNREADABLE)

    def counting(self, frame: DataFrame, name: str) -> tuple[DataFrame, Callable[[], int | None]]:
        """A micro-batch with a metric of its rows, and a function that returns it after the first action (None: there was none)."""
        catalyst = self._catalyst_of(frame.sparkSession)
        plan, observation = catalyst.counted(analyzed(frame), name)
        return catalyst.frame(plan), lambda: count_of(observation)

    def learn(self, plain: DataFrame, stream: DataFrame) -> None:
        """Starts to count the relations of the query in the background, after its first micro-batch."""
        if self._batches == 1 and self._mode == "adaptive":
            self._background.submit(self._count_all, plain, stream)

    def observe(self, replanned: Replanned) -> None:
        """Takes the rows that the operators produced, if an action on the DataFrame has finished and read all rows.

        An action such as ``isEmpty()`` or ``take(1)`` reads a part of them.
        """
        if self.planner is None or not replanned.observations:
            return
        found = (count_of(observation) for observation in replanned.observations)
        rows = [n for n in found if n is not None]
        if len(rows) == len(replanned.observations) and rows[0] >= WHOLE_SCAN * replanned.stream_rows:
            self.planner.observe(ObservedJoin({self.planner.sources[0]: rows}))

    def wait(self) -> None:
        """Waits until no relation is being counted."""
        self._background.submit(int).result()

    def _planned(self, query: JoinQuery, plain: DataFrame) -> Replanned:
        others = [name for name in query.relations if name != query.stream]
        identities = {name: query.identity(name) for name in others}
        missing = [name for name in others if identities[name] not in self._relations.counts]
        if missing:
            lost = [name for name in missing if self._has_failed(identities[name])]
            if not lost:
                for name in missing:
                    self._count(query, name, identities[name])
                if self._mode == "adaptive":
                    return self._leave(plain, f"{', '.join(missing)}: the rows are counted in the background", 1)
                self.wait()
                lost = [name for name in missing if self._has_failed(identities[name])]
            if lost:
                return self._leave(plain, f"{', '.join(lost)}: the rows could not be counted", UNREADABLE)
        planner = self._planner_of(query, identities)
        sample = sampled_keys(query.rows(query.stream), self._columns(query, query.stream), self._batches)
        if not sample.rows:
            return Replanned(plain, "there are no rows in this micro-batch")
        self._widths[query.stream] = sample.width
        planner.advance(Counted(slots={query.stream: sample.counts}), self._batches, self._batches + 1)
        decision, most = planner.choose()[query.stream], broadcast_bytes(plain.sparkSession)
        if self._mode == "adaptive":
            costs = planner.alternatives(query.stream, self._widths, most)
            if costs.written * (1 - TIE) <= costs.chosen:
                return self._leave(plain, *self._why(costs), sampled=True)
            self._interval = 1
        self.reason = None
        sides = planner.side_bytes(query.stream, self._widths)
        frame, observations = query.rebuilt(
            decision.choice.plan, decision.choice.filters, lambda place: _smaller(sides[place], most)
        )
        return Replanned(frame, None, tuple(observations), sampled=True, stream_rows=sample.rows)

    def _why(self, costs: OrderCosts) -> tuple[str, int]:
        """Why the order of the query is kept, and the number of micro-batches until the next sample."""
        most = next((n for spread, n in SPREADS if costs.spread <= spread), 1)
        self._interval = min(most, self._interval * 2)
        if most == SPREADS[0][1]:
            return (
                f"the order does not matter: the most expensive one costs {costs.spread:.2f} times the cheapest",
                self._interval,
            )
        gain = 1 - costs.chosen / costs.written if costs.written else 0.0
        return f"the order of the query is the cheapest, or within {max(gain, 0):.0%} of it", self._interval

    def _leave(self, plain: DataFrame, reason: str, interval: int, sampled: bool = False) -> Replanned:
        """Leaves the query as it is, and the next micro-batches but the last of ``interval`` as well."""
        if reason != self.reason:
            _log.info("Spark's own plan: %s", reason)
        self.reason, self._pause = reason, interval - 1
        return Replanned(plain, reason, sampled=sampled)

    # ------------------------------------------------------------------ counts
    def _count_all(self, plain: DataFrame, stream: DataFrame) -> None:
        try:
            query = read(self._catalyst_of(plain.sparkSession), plain, stream)
        except NotReadableError:
            return
        if len(query.relations) > 2:
            for name in query.relations:
                if name != query.stream:
                    self._count_now(query, name, query.identity(name))

    def _count(self, query: JoinQuery, name: str, identity: Identity) -> None:
        if identity not in self._relations.counting:
            self._relations.counting[identity] = self._background.submit(self._count_now, query, name, identity)

    def _count_now(self, query: JoinQuery, name: str, identity: Identity) -> None:
        if identity in self._relations.counts:
            return
        try:
            self._relations.counts[identity] = static_counts(query.rows(name), self._columns(query, name))
        except (PySparkException, Py4JError) as error:
            _log.warning("%s cannot be counted: %s", name, _first_line(error))

    def _has_failed(self, identity: Identity) -> bool:
        """Whether the rows of a relation could not be counted. The next call counts them again."""
        found = self._relations.counting.get(identity)
        if found is None or not found.done() or identity in self._relations.counts:
            return False
        del self._relations.counting[identity]
        return True

    def _columns(self, query: JoinQuery, name: str) -> dict[str, Any]:
        catalyst = query.catalyst
        return {variable: catalyst.column(expression) for variable, expression in query.keys[name].items()}

    # ------------------------------------------------------------------ the planner
    def _catalyst_of(self, session: SparkSession) -> Catalyst:
        if self._catalyst is None or self._catalyst.spark is not session:
            self._catalyst = Catalyst(session)
        return self._catalyst

    def _planner_of(self, query: JoinQuery, identities: dict[str, Identity]) -> JoinPlanner:
        """The planner, with the counts of the current versions of the relations."""
        counts = {name: self._relations.counts[identity] for name, identity in identities.items()}
        shape = JoinShape(query.graph, {query.stream: 1}, {name: tuple(keys) for name, keys in query.keys.items()})
        if self.planner is None or self._shape is None or repr(self._shape.graph) != repr(shape.graph):
            for name in identities:
                self._widths[name] = row_width(query.relations[name].plan, counts[name].rows)
            self.planner, self._shape = JoinPlanner(shape, counts, self._model(query.catalyst.spark), self._mode), shape
        else:
            for name, identity in identities.items():
                if identity != self._identities.get(name):
                    self.planner.replace(name, counts[name])
                    self._widths[name] = row_width(query.relations[name].plan, counts[name].rows)
        self._identities = identities
        return self.planner

    def _model(self, session: SparkSession) -> SparkCost:
        model = SparkCost(known().constants, slots=self._slots, partitions=shuffle_partitions(session, self._slots))
        return replace(model, broadcast_rows=broadcast_bytes(session) / max(1.0, *self._widths.values()))

    def explain(self, format: Format, alternatives: int) -> str:
        """The plans of the last sampled micro-batch, and why Spark's own plan is used, if it is."""
        head = "" if self.reason is None or format != "text" else f"Spark's own plan: {self.reason}.\n"
        if self.planner is None or not self.planner.decisions:
            return head if format == "text" else '{"deltas": []}' if format == "json" else "digraph {}"
        return head + self.planner.explain(format, alternatives)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _smaller(sides: tuple[float, float], most: float) -> Side | None:
    """The side of a join with fewer bytes, if Spark would broadcast them."""
    if min(sides) > most:
        return None
    return "left" if sides[0] < sides[1] else "right"
