"""``AdaptiveJoin``, ``adaptive`` and ``adaptive_sql``: the optimizer for jobs whose relations are DataFrames and whose query is not SPARQL.

This module declares joins. ``spark/replanned_join.py`` runs those of a micro-batch with other relations, ``spark/windowed_join.py`` those
of windows over a stream; ``relational/`` defines the semantics.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cqels_opt.errors import EngineWarning, InputError, check_flags
from cqels_opt.plans import MODES, Plan, PlanError, parse_plans
from cqels_opt.plans.explain import Format
from cqels_opt.query.durations import duration_of
from cqels_opt.relational.spec import HOWS, JoinInput, JoinSpec, window_of
from cqels_opt.runtime.limits import NO_LIMITS, Limits, checked
from cqels_opt.spark.batch_jobs import BatchJobs
from cqels_opt.spark.column_text import Column, text_of
from cqels_opt.spark.drop_in import check_classic, check_micro_batch
from cqels_opt.spark.join_run import JoinOptions, JoinRun
from cqels_opt.spark.plain_join import DataFrame, PlainJoin, SparkSession, query_of_sql, table_named, without_streams
from cqels_opt.spark.replanned_join import Build, ReplannedJoin
from cqels_opt.spark.replanning import Replanner
from cqels_opt.spark.session import on_one_machine
from cqels_opt.spark.sinks import BatchFunction
from cqels_opt.spark.windowed_join import Declared, Versions, WindowedJoin
from cqels_opt.trace import display
from cqels_opt.trace.listener import ListenerLike

PathLike = str | Path

DEFAULT_TIME = "t"

PLAN_MODES = tuple(mode for mode in MODES if mode != "heuristic")
"""Modes of ``plan=``: all except the rules for triple patterns (``--filters H1``, H2)."""


@dataclass(frozen=True, repr=False)
class AdaptiveJoin:
    """A join of DataFrames and of windows over a stream that adapts its order to the data. Immutable.

    Each method returns a new join. For example::

        join = AdaptiveJoin(spark).relation("contacts", window="30s").relation("places", places)
        join = join.on("contacts.loc = places.loc")
        contacts.writeStream.foreachBatch(join.batch(then=write)).start()
    """

    spark: SparkSession
    spec: JoinSpec = field(default_factory=JoinSpec)
    frames: Mapping[str, DataFrame | Versions] = field(default_factory=dict)
    projection: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_classic(self.spark)

    # ------------------------------------------------------------------ declaration
    def relation(
        self,
        name: str,
        frame: DataFrame | str | Versions | None = None,
        *,
        window: int | str | None = None,
        time: str | None = None,
        how: str = "inner",
        lateness: int | str | None = None,
        idle_timeout: int | str | None = None,
    ) -> AdaptiveJoin:
        """Adds a relation, which conditions reference by ``name``.

        With a ``frame``, a DataFrame or the name of a table, it is static. A function is a relation with versions: it is called with the
        id of each micro-batch and returns the current DataFrame, the same object while there is no newer one. Without a frame the
        relation is over the stream: its rows of the last ``window`` (``30s``, ``1 hour``; ``now``: of the same instant) by the column
        ``time`` (a timestamp, or a long of milliseconds; ``t`` by default); without a window, the micro-batch alone. ``how`` is inner,
        left, semi or anti, as in Spark: the relation is the right side of such a join, and :meth:`on` has its condition.

        Relations with one column of times are one stream; several streams arrive as one DataFrame, a union in which the times of the others
        are null. ``lateness`` is that of the stream, if it is not that of :meth:`batch`. Windows advance with the stream that is furthest
        behind; ``idle_timeout`` is the duration without rows after which they do not wait for this stream.
        """
        _check_relation(name, frame)
        if not isinstance(time, str | None):
            raise InputError(f"relation({name!r}): time={time!r}: the name of a column is expected")
        if frame is not None and (window is not None or time is not None):
            raise InputError(
                f"relation({name!r}): window and time are for a relation over the stream, which has no DataFrame here"
            )
        if window is None and (lateness is not None or idle_timeout is not None):
            raise InputError(
                f"relation({name!r}): lateness and idle_timeout are for a window over a stream; give window=… as well"
            )
        if not isinstance(how, str) or how.lower() not in HOWS:
            raise InputError(f"relation({name!r}): how={how!r}: choose inner, left, semi or anti")
        at = DEFAULT_TIME if window is not None and time is None else time
        late = duration_of(lateness, "lateness") if lateness is not None else None
        idle = duration_of(idle_timeout, "idle_timeout", positive=True) if idle_timeout is not None else None
        spec = self.spec.relation(JoinInput(name, frame is not None, window_of(window), at, HOWS[how.lower()], late, idle))
        given = table_named(self.spark, frame, name) if isinstance(frame, str) else frame
        if isinstance(given, DataFrame) and given.isStreaming:
            what = f"{frame} is a stream" if isinstance(frame, str) else "this DataFrame is the stream"
            raise InputError(f"relation({name!r}): {what}: leave it out, and give its micro-batches to batch(…) by foreachBatch")
        return replace(self, spec=spec, frames=self.frames if given is None else {**self.frames, name: given})

    def on(self, condition: str | Column) -> AdaptiveJoin:
        """Adds join conditions: ``contacts.loc = places.loc``, ``lower(s.v) = d.n``, or any Spark SQL condition, with AND between several.

        An equality of expressions over two relations is a join key. If the text reads the right side of a left, semi or anti join, all its
        conditions but equalities between two other relations belong to that join, as in the ON of SQL. Numbers are compared with
        numbers and dates with timestamps as Spark does; other types must be cast. A ``Column`` names its columns as
        ``F.col("contacts.loc")``.
        """
        return replace(self, spec=self.spec.on(text_of(self.spark, condition, "on")))

    def where(self, condition: str | Column) -> AdaptiveJoin:
        """Adds a filter: any Spark SQL condition on columns of relations, applied as early as possible; an equality is a join condition."""
        return replace(self, spec=self.spec.where(text_of(self.spark, condition, "where")))

    def select(self, *columns: str | Column) -> AdaptiveJoin:
        """Selects the output columns, as Spark's ``selectExpr``: ``contacts.person``, ``places.*``, ``hour(time)``, ``count(*) AS n``.

        An aggregate is over the rows that the micro-batch adds. The default is a struct column per relation and, if there is one, the
        event time as ``time``.
        """
        return replace(self, projection=tuple(text_of(self.spark, column, "select") for column in columns))

    # ------------------------------------------------------------------ execution
    def batch(
        self,
        then: BatchFunction,
        *,
        state: PathLike | None = None,
        trace: PathLike | None = None,
        name: str = "join",
        plan: str = "adaptive",
        lateness: int | str = 0,
        limits: Limits = NO_LIMITS,
        allow_gap: bool = False,
        listener: ListenerLike | None = None,
    ) -> JoinRun:
        """A function for ``foreachBatch``; ``then(df, batch_id)`` gets the rows that each micro-batch adds to the join.

        The rows have not run yet. If an action of ``then`` fails, it is called again with the joins as written and the same batch id.
        A result row is added with the last of its input rows, if all of these are in their windows at one instant. ``state`` is a
        folder that executors can access, or a URI that Hadoop's file systems open (``s3a://bucket/x``), for the rows and
        statistics of windows; without it a join of several windows lives as long as this object. ``trace`` is a file, ``name``
        the query's name in it. ``plan``: adaptive, static (keeps the plan of the first rows), first (joins as written), worst, or
        ``fixed:`` and plans. ``lateness``: how far a row may be behind the latest row of earlier micro-batches, as ``"10s"`` or
        in milliseconds; later rows of windows are dropped and counted. ``limits`` end the join and not the job. A micro-batch that
        does not follow the state of a join of several windows is a CheckpointError, because the windows would lack rows;
        ``allow_gap=True`` accepts it. ``listener`` gets the trace record of each micro-batch.
        """
        check_classic(self.spark)
        _check_batch(then, name, limits)
        check_flags(allow_gap=allow_gap)
        spec, late = self.spec.checked(), duration_of(lateness, "lateness")
        if late and not spec.widest:
            raise InputError("lateness: only rows of windows can be late; give window=… to a relation over the stream")
        options = JoinOptions(then, state, trace, name, _plan_mode(plan), late, limits, allow_gap, listener)
        if state is None and spec.stateful and not on_one_machine(self.spark):  # explain writes no rows
            raise InputError(
                "state=FOLDER is needed on a cluster: the rows of windows lie in a folder, or below a URI, that all executors reach"
            )
        if alone := spec.unconnected():
            warnings.warn(
                f"relation {', '.join(alone)}: no condition connects it with the stream, so each of its rows joins with each row",
                EngineWarning,
                stacklevel=2,
            )
        declared = Declared(spec, self.frames, self.projection)
        if spec.windowed or spec.stateful:
            return WindowedJoin(self.spark, declared, options)
        return ReplannedJoin(self.spark, PlainJoin(declared), options)

    def explain(self, format: Format = "text", alternatives: int = 0) -> str:
        """The current plans: from the statistics of the static relations, before any rows of the stream."""
        check_classic(self.spark)
        declared = Declared(self.spec.checked(), self.frames, self.projection)
        return WindowedJoin(self.spark, declared, JoinOptions(_no_sink)).explain(format, alternatives)

    def __repr__(self) -> str:
        names, conditions = self._described()
        return f"AdaptiveJoin({', '.join(names)}{' on ' if conditions else ''}{' AND '.join(conditions)})"

    def _repr_html_(self) -> str:
        return display.declared("AdaptiveJoin", *self._described())

    def _described(self) -> tuple[list[str], list[str]]:
        """The names of the relations, and the texts of the conditions."""
        return [r.name for r in self.spec.relations], [c.text for c in self.spec.every_condition]


@dataclass(slots=True)
class AdaptiveQuery:
    """A query over the micro-batches of a stream, given as a function or as SQL, whose joins adapt their order to the data.

    Call it with a micro-batch for the DataFrame of its answers, or give :meth:`batch` to ``foreachBatch``.
    """

    build: Build = field(repr=False)
    _replanner: Replanner | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, frame: DataFrame, batch_id: int | None = None) -> DataFrame:
        """The answers of a micro-batch, to be used within ``foreachBatch``. What is counted is kept for later calls."""
        if batch_id is not None:
            raise InputError(
                "nobody would read the answers: give foreachBatch the function that .batch(then=…) of this query returns"
            )
        check_micro_batch(frame)
        with self._lock:
            if self._replanner is None:
                self._replanner = Replanner("adaptive", BatchJobs(frame.sparkSession).parallelism, "query", observes=False)
            plain = self.build(frame, 0)
            found = self._replanner.rows(plain, frame)
            self._replanner.start_counting(plain, frame)
            return found.frame

    def batch(
        self,
        then: BatchFunction,
        *,
        trace: PathLike | None = None,
        name: str = "query",
        plan: str = "adaptive",
        limits: Limits = NO_LIMITS,
        listener: ListenerLike | None = None,
    ) -> JoinRun:
        """A function for ``foreachBatch``; ``then(df, batch_id)`` gets the answers of each micro-batch. See :meth:`AdaptiveJoin.batch`."""
        _check_batch(then, name, limits)
        options = JoinOptions(then, trace=trace, name=name, mode=_plan_mode(plan), limits=limits, listener=listener)
        return ReplannedJoin(None, self.build, options)


def adaptive(query: Callable[[DataFrame], DataFrame]) -> AdaptiveQuery:
    """A query given as a function of the micro-batch, such as ``lambda views: views.join(follows, "who").join(offers, "item")``.

    The function builds the DataFrame as in a job without cqels-opt. Its logical plan is read, and its joins are done in the order that is
    cheapest for the micro-batch: inner joins and the right sides of left, semi and anti joins. Everything else stays as it is.
    """
    if not callable(query):
        raise InputError(f"adaptive(…) expects a function of the micro-batch, such as a lambda, not {type(query).__name__}")

    def build(frame: DataFrame, number: int) -> DataFrame:
        found = query(frame)
        if not isinstance(found, DataFrame):
            raise InputError(f"adaptive(…): the function returned {type(found).__name__}; it must return a DataFrame")
        return without_streams(found, "adaptive(…)")

    return AdaptiveQuery(build)


def adaptive_sql(spark: SparkSession, query: str, *, stream: str | None = None) -> AdaptiveQuery:
    """A query in SQL, such as ``SELECT … FROM views v JOIN offers o ON v.item = o.item``.

    ``stream`` is the name that the query has for the micro-batch; by default the only name of it that is neither a table nor a view.
    """
    check_classic(spark)
    return AdaptiveQuery(query_of_sql(spark, query, stream))


def _no_sink(frame: DataFrame, batch_id: int) -> None:
    """The sink of a join that is explained, not run."""


def _check_relation(name: object, frame: object) -> None:
    if not isinstance(name, str):
        raise InputError(f"relation(…) expects a name first, not {type(name).__name__}")
    if frame is not None and not isinstance(frame, DataFrame | str) and not callable(frame):
        what = "a DataFrame, the name of a table, or a function that returns a DataFrame"
        raise InputError(f"relation({name!r}, …) expects {what}, not {_type_name(frame)}")


def _type_name(given: object) -> str:
    package, name = type(given).__module__.partition(".")[0], type(given).__name__
    return name if package == "builtins" else f"{package}.{name}"  # such as pandas.DataFrame


def _check_batch(then: object, name: object, limits: Limits) -> None:
    if not callable(then):
        raise InputError(f"batch(then=…) expects a function of a DataFrame and the batch id, not {type(then).__name__}")
    if not isinstance(name, str):
        raise InputError(f"name={name!r}: a text is expected")
    if checked(limits).bound is not None:
        raise InputError("limits: joins of DataFrames have no size bounds, so bound= does not apply; rows= limits their rows")


def _plan_mode(plan: str) -> str | Mapping[str, Plan]:
    if plan in PLAN_MODES:
        return plan
    if not isinstance(plan, str) or not plan.startswith("fixed:"):
        raise InputError(f"plan={plan!r}: choose {', '.join(PLAN_MODES)}, or fixed:PLANS")
    try:
        plans = parse_plans(plan.removeprefix("fixed:"))
    except PlanError as error:
        raise InputError(f"plan={plan!r}: {error}") from error
    return {source: given for source, given in plans.items() if isinstance(given, Plan)}


__all__ = ["AdaptiveJoin", "AdaptiveQuery", "JoinRun", "Limits", "adaptive", "adaptive_sql"]
