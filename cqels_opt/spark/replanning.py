"""Chooses the join order of a micro-batch, if that pays off; otherwise Spark's own plan runs, and nothing is counted.

The rows of the micro-batch are sampled, the other relations are counted once per version in the background. With these the optimizer
prices all join orders. If the order of the query is within :data:`TIE` of the cheapest one, the query is left as it is. How soon the
next micro-batch is sampled depends on how much a wrong order could cost: the ratio of the most expensive order to the cheapest one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import first_line
from cqels_opt.plans import Plan
from cqels_opt.plans.explain import Format
from cqels_opt.relational.counting import Counted
from cqels_opt.relational.planner import Counts, JoinLayout, JoinPlanner, ObservedJoin, OrderCosts, Side
from cqels_opt.spark.catalyst import Catalyst, count_of, same_session
from cqels_opt.spark.job_descriptions import described
from cqels_opt.spark.join_counts import Sampling, broadcast_bytes, row_width, sampling_of, spark_cost, static_counts
from cqels_opt.spark.join_query import JoinQuery, NotReadableError, read
from cqels_opt.spark.kept_query import KeptQuery
from cqels_opt.spark.relation_identity import Identity, identity_of
from cqels_opt.spark.versions import await_observations

TIE = 0.1
"""The order of the query is kept if the cheapest one saves less than this share of it."""

SPREADS = ((1.05, 64), (1.5, 8))
"""Up to these ratios of the most expensive order to the cheapest one, every n-th micro-batch is sampled at most; above, each is."""

GROWTH = 8
"""How much longer the interval gets from sample to sample."""

WHOLE_SCAN = 0.9
"""The share of the estimated rows of a micro-batch from which an action has read all of them: estimates of large ones are inexact."""

UNREADABLE = 64
"""The number of micro-batches until a query is read again that has no joins to reorder."""

LONGEST_WAIT = 10.0
"""Seconds for which EXPLAIN ANALYZE waits for the counts of relations."""

_log = logging.getLogger("cqels_opt.join")


@dataclass(frozen=True, slots=True)
class Replanned:
    """The rows of a micro-batch as a DataFrame that has not run yet. ``reason`` is why Spark's own plan is used; None: it is not.

    ``elements`` are the rows of the micro-batch, estimated from a sample; None if none was taken.
    """

    frame: DataFrame
    reason: str | None = None
    observations: tuple[Any, ...] = ()
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class Estimated:
    """Plans, as far as there are any, and how many micro-batches ago the sample was taken that they are for; None: there was none."""

    planner: JoinPlanner | None = None
    age: int | None = None


class Replanner:
    """The optimizer of one query over micro-batches. ``mode`` is ``adaptive``, or a mode that always decides the order itself."""

    def __init__(
        self, mode: str | Mapping[str, Plan], slots: int, name: str, page: str | None = None, observes: bool = True
    ) -> None:
        """``page`` is the path of the trace's page in Spark's UI, for the descriptions of jobs. ``observes``: :meth:`observe` is called
        after each micro-batch; otherwise no rows are counted, because Spark pushes no filter past an operator that counts them.
        """
        self._mode, self._slots, self._name, self._page, self._observes = mode, slots, name, page, observes
        self._catalyst: Catalyst | None = None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="cqels-opt counts")
        self._counts: dict[Identity, Counts] = {}  # of relations
        self._counting: set[Identity] = set()
        self._failed: set[Identity] = set()
        self._identities: dict[str, Identity] = {}
        self._waited: dict[str, Identity] = {}  # relations that were being counted
        self._others = 0  # how often in a row one of them was another query than the one that had been counted
        self._pause, self._interval = 0, 1
        self._batches = 0
        self._elements, self._sampled = 0, 0  # of the last sampled micro-batch: its rows, and its number
        self._broadcasts: Sequence[Side | None] = ()  # of each operator of its plan
        self._first: JoinQuery | None = None  # the query of the first micro-batch, until a sample has been taken
        self._kept: KeptQuery | None = None  # while its order does not pay off
        self.planner: JoinPlanner | None = None
        self.reason: str | None = "no micro-batch has been planned yet"

    # ------------------------------------------------------------------ a batch
    def rows(self, plain: DataFrame, stream: DataFrame) -> Replanned:
        """The rows of the DataFrame ``plain``, which reads the micro-batch ``stream``, in the cheapest order."""
        self._batches += 1
        if self._mode == "adaptive" and (self._pause > 0 or self._batches == 1):
            self._pause = max(0, self._pause - 1)
            return Replanned(plain, self.reason if self._batches > 1 else "the first micro-batch")
        catalyst = self._catalyst_of(plain.sparkSession)
        kept, self._kept = self._kept, None
        try:
            sampling = kept.sampling(plain, stream) if kept is not None else None
            if sampling is None or self.planner is None:
                return self._planned(read(catalyst, plain, stream), plain, stream)
            left = self._left(self.planner, sampling, plain)
            if left is not None:
                self._kept = kept
                return left
            query = read(catalyst, plain, stream)
            if repr(query.graph) != repr(self.planner.layout.graph):  # the names of relations have changed
                return self._planned(query, plain, stream)
            return self._rebuilt(query)
        except NotReadableError as error:
            return self._leave(plain, str(error), UNREADABLE)
        except (PySparkException, Py4JError) as error:  # such as a key that cannot be computed for rows that another join drops
            return self._leave(plain, f"it could not be planned: {first_line(error)[:200]}", UNREADABLE)

    def start_counting(self, plain: DataFrame, stream: DataFrame) -> None:
        """Starts to count the relations of the query in the background, after its first micro-batch."""
        if self._batches == 1 and self._mode == "adaptive":
            self._background.submit(self._count_all, plain, stream)

    def observe(self, replanned: Replanned) -> None:
        """Takes the rows that the operators produced, if an action on the DataFrame has finished and read all rows.

        An action such as ``isEmpty()`` or ``take(1)`` reads a part of them.
        """
        if self.planner is None or not replanned.observations:
            return
        await_observations(replanned.frame.sparkSession)
        found = (count_of(observation) for observation in replanned.observations)
        rows = [n for n in found if n is not None]
        if len(rows) == len(replanned.observations) and rows[0] >= WHOLE_SCAN * (replanned.elements or 0):
            self.planner.observe(ObservedJoin({self.planner.sources[0]: rows}))

    def wait(self, seconds: float | None = None) -> None:
        """Waits until no relation is being counted, at most for this many seconds."""
        with suppress(TimeoutError):
            self._background.submit(int).result(seconds)

    def _planned(self, query: JoinQuery, plain: DataFrame, stream: DataFrame) -> Replanned:
        others = [name for name in query.relations if name != query.stream]
        identities = {name: identity_of(query, name) for name in others}
        missing = [name for name in others if identities[name] not in self._counts]
        for name in (name for name in missing if identities[name] not in self._failed):
            self._count(query, name, identities[name])
        if missing and self._mode != "adaptive":
            self.wait()
        lost = [name for name in missing if identities[name] in self._failed]
        self._failed.clear()  # they are tried again after the pause
        if lost := [name for name in lost if self._known(identities[name]) is None]:
            return self._leave(plain, f"the rows of {', '.join(lost)} could not be counted", UNREADABLE)
        known = {name: found for name in others if (found := self._known(identities[name])) is not None}
        if waiting := [name for name in others if name not in known]:
            return self._leave(plain, f"the rows of {', '.join(waiting)} are being counted", self._wait_for(waiting, identities))
        self._others = 0
        planner = self._planner_of(query, known)
        sampling = sampling_of(query.rows(query.stream), self._columns(query, query.stream))
        left = self._left(planner, sampling, plain)
        if left is None:
            return self._rebuilt(query)
        if known != identities:
            self._pause = min(self._pause, GROWTH - 1)
        elif self._mode == "adaptive":
            kept = KeptQuery(query.catalyst, plain, stream, sampling)
            unchanged = all(identity_of(query, name) == identities[name] for name in others)  # while the sample was taken
            self._kept = kept if unchanged else None
        return left

    def _wait_for(self, waiting: Sequence[str], identities: dict[str, Identity]) -> int:
        """The number of micro-batches until relations that are being counted are read again. It grows while they are other queries each
        time, such as a DataFrame that the function makes of rows of the driver. Forgets the counts of those that are not read any more.
        """
        if any(not identities[name].is_version_of(self._waited.get(name, identities[name])) for name in waiting):
            self._others += 1
        self._waited = identities
        self._counts = {
            one: n for one, n in self._counts.items() if any(one.is_version_of(other) for other in identities.values())
        }
        return UNREADABLE if self._others > 2 else GROWTH if self._others > 1 else 1

    def _known(self, identity: Identity) -> Identity | None:
        """The identity of a relation if it has been counted; while a new version of its tables is being counted, that of a former one."""
        if identity in self._counts:
            return identity
        return next((former for former in reversed([*self._counts]) if former.is_version_of(identity)), None)

    def _left(self, planner: JoinPlanner, sampling: Sampling, plain: DataFrame) -> Replanned | None:
        """The query as it is, if no other order than its own pays off for a micro-batch; None otherwise."""
        (source,), session = planner.sources, plain.sparkSession
        with described(session.sparkContext, f"{self._name}: sample the join keys of {source}", self._page):
            sample = sampling.take(self._batches)
        if not sample.rows:
            return self._leave(plain, "there are no rows in this micro-batch", 1, 0)
        most, planner.widths[source] = broadcast_bytes(session), sample.width
        planner.advance(Counted(slots={source: sample.counts}), self._batches, self._batches + 1)
        planner.choose()
        self._broadcasts = planner.broadcast_below(source, most)
        self._elements, self._sampled, self._first = sample.rows, self._batches, None
        if self._mode == "adaptive":
            costs = planner.alternatives(source, most)
            if costs.written * (1 - TIE) <= costs.chosen:
                return self._leave(plain, *self._why(costs), sample.rows)
            self._interval = 1
        return None

    def _rebuilt(self, query: JoinQuery) -> Replanned:
        """The query in the order that the planner has chosen."""
        assert self.planner is not None
        self.reason = None
        choice, sides = self.planner.decisions[query.stream].choice, self._broadcasts
        frame, observations = query.rebuilt(choice.plan, choice.filters, lambda place: sides[place], counted=self._observes)
        return Replanned(frame, None, tuple(observations), self._elements)

    def _why(self, costs: OrderCosts) -> tuple[str, int]:
        """Why the order of the query is kept, and the number of micro-batches until the next sample."""
        most = next((n for spread, n in SPREADS if costs.spread <= spread), 1)
        self._interval = min(most, self._interval * GROWTH)
        if most == SPREADS[0][1]:
            return (
                f"the order does not matter: the most expensive one costs {costs.spread:.2f} times the cheapest",
                self._interval,
            )
        gain = 1 - costs.chosen / costs.written if costs.written else 0.0
        return f"the order of the query is the cheapest, or within {max(gain, 0):.0%} of it", self._interval

    def _leave(self, plain: DataFrame, reason: str, interval: int, elements: int | None = None) -> Replanned:
        """Leaves the query as it is, and the next micro-batches but the last of ``interval`` as well."""
        self.reason, self._pause = reason, interval - 1
        return Replanned(plain, reason, elements=elements)

    # ------------------------------------------------------------------ counts
    def _count_all(self, plain: DataFrame, stream: DataFrame) -> None:
        try:
            self._first = query = read(self._catalyst_of(plain.sparkSession), plain, stream)
            identities = {name: identity_of(query, name) for name in query.relations if name != query.stream}
            self._waited = identities
        except NotReadableError:
            return
        except (PySparkException, Py4JError) as error:
            _log.warning("%s: the relations could not be counted: %s", self._name, first_line(error)[:200])
            return
        for name, identity in identities.items():
            self._count_now(query, name, identity)

    def _count(self, query: JoinQuery, name: str, identity: Identity) -> None:
        """Starts to count a relation in the background, unless it is being counted, or an earlier version of its tables is."""
        if not any(other.is_version_of(identity) for other in tuple(self._counting)):
            self._counting.add(identity)
            self._background.submit(self._count_now, query, name, identity)

    def _count_now(self, query: JoinQuery, name: str, identity: Identity) -> None:
        try:
            if identity in self._counts:
                return
            rows = query.rows(name)
            with described(rows.sparkSession.sparkContext, f"{self._name}: count the join keys of {name}", self._page):
                self._counts[identity] = static_counts(rows, self._columns(query, name))
        except Exception as error:  # noqa: BLE001  # of Spark, Arrow or a key's function: Spark's own plan runs
            self._failed.add(identity)
            _log.warning("%s: the rows of %s could not be counted: %s", self._name, name, first_line(error)[:200])
        finally:
            self._counting.discard(identity)

    def _columns(self, query: JoinQuery, name: str) -> dict[str, Any]:
        catalyst = query.catalyst
        return {variable: catalyst.column(expression) for variable, expression in query.keys[name].items()}

    # ------------------------------------------------------------------ the planner
    def _catalyst_of(self, session: SparkSession) -> Catalyst:
        if self._catalyst is None or not same_session(self._catalyst.spark, session):
            self._catalyst, self._kept = Catalyst(session), None
        return self._catalyst

    def _planner_of(self, query: JoinQuery, identities: dict[str, Identity]) -> JoinPlanner:
        """The planner, with the counts of the current versions of the relations."""
        counts = {name: self._counts[identity] for name, identity in identities.items()}
        if self.planner is None or repr(self.planner.layout.graph) != repr(query.graph):
            self.planner = self._new_planner(query, counts)
        else:
            for name in (name for name, identity in identities.items() if identity != self._identities.get(name)):
                self.planner.replace(name, counts[name])
                self.planner.widths[name] = row_width(query.relations[name].plan, counts[name])
        if identities != self._identities:
            self._identities = identities
            self._counts = dict(zip(identities.values(), counts.values()))  # forgets former versions
        return self.planner

    def _new_planner(self, query: JoinQuery, counts: Mapping[str, Counts]) -> JoinPlanner:
        layout = JoinLayout(query.graph, {query.stream: 1}, {name: tuple(keys) for name, keys in query.keys.items()})
        widths = {name: row_width(query.relations[name].plan, found) for name, found in counts.items()}
        planner = JoinPlanner(layout, counts, spark_cost(query.catalyst.spark, self._slots, max(widths.values())), self._mode)
        planner.widths = widths
        return planner

    # ------------------------------------------------------------------ reports
    def estimated(self) -> Estimated:
        """The plans of the last sample. Before one they are estimated from the counts of the other relations, as far as these are known."""
        if self.planner is not None and self._sampled:
            return Estimated(self.planner, self._batches - self._sampled)
        if (query := self._first) is None:
            return Estimated()
        identities = {name: identity_of(query, name) for name in query.relations if name != query.stream}
        if not self._counts.keys() >= {*identities.values()}:
            return Estimated()
        planner = self._new_planner(query, {name: self._counts[identity] for name, identity in identities.items()})
        planner.widths[query.stream] = row_width(query.relations[query.stream].plan)
        planner.choose()
        planner.broadcast_below(query.stream, broadcast_bytes(query.catalyst.spark))
        return Estimated(planner)

    def explain(self, format: Format, alternatives: int) -> str:
        """The plans of the last sampled micro-batch, and why Spark's own plan is used, if it is."""
        head = "" if self.reason is None or format != "text" else f"Spark's own plan: {self.reason}.\n"
        if self.planner is None or not self.planner.decisions:
            return head if format == "text" else '{"deltas": []}' if format == "json" else "digraph {}"
        return head + self.planner.explain(format, alternatives)
