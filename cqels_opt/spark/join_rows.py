"""The rows that a micro-batch adds to an adaptive join: chosen plans as Spark joins, in plan order, with hints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import sqlglot
from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from sqlglot import TokenType

from cqels_opt.errors import InputError, first_line
from cqels_opt.plans import Multiway, Plan, Probe, Scan
from cqels_opt.plans.join_methods import BROADCAST
from cqels_opt.plans.physical import MethodChoice
from cqels_opt.relational.column_names import quoted
from cqels_opt.relational.conditions import all_of
from cqels_opt.relational.planner import JoinDecision, ObservedJoin
from cqels_opt.relational.spec import TIME, JoinInput, JoinSpec
from cqels_opt.spark.catalyst import Catalyst, analyzed, has_hint, items
from cqels_opt.spark.join_inputs import satisfying, varying
from cqels_opt.spark.paths import literal, to_write
from cqels_opt.spark.plan_over_files import Leaves
from cqels_opt.spark.session import IN_A_BATCH, settings

_TIMES_IN_PARQUET = "spark.sql.parquet.outputTimestampType"
ROWS_A_FILE = 1_000_000

ANSWERS = "answers"
"""The metric that counts the rows of a join."""

EVENT = "event time"
"""The qualifier of the event time in the answers, which no relation has."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The rows of streams with their times: those of the batch, and old ones, which are in files, alive if they expire after the frontier.
    ``times`` has the columns of :func:`time_columns`."""

    new: DataFrame
    times: Mapping[str | None, tuple[str, str]]
    old: DataFrame | None = None
    frontier: int | None = None

    def at(self, relation: JoinInput) -> str:
        """The column with the times of a relation's rows."""
        return self.times[relation.time][0]

    def rows(self, relation: JoinInput, spec: JoinSpec, new: bool, old: bool, leaves: Leaves | None) -> DataFrame:
        """The selected rows (new, old) of a relation, under its name; ``leaves`` are where files are read."""
        parts, at = list[DataFrame](), self.at(relation)
        if new:
            rows = self.new if leaves is None else leaves.make("new")
            parts.append(rows if relation.window is None else rows.where(f.col(at).isNotNull()))
        if old and self.old is not None and self.frontier is not None:
            age = relation.window or 0
            bound = varying(self.frontier - age, at)
            parts.append(self.old.where(f.col(at) > bound) if leaves is None else leaves.make("old", at, age))
        return satisfying(reduce(DataFrame.unionByName, parts), relation, spec)


@dataclass(slots=True)
class _Counters:
    """The metric names that count the output rows of each operator per relation, and the input and output rows of filters."""

    operators: dict[str, list[str]] = field(default_factory=dict)
    filters: list[tuple[str, str, str]] = field(default_factory=list)


class Joined:
    """The rows that a batch adds to a join: per relation over the stream, the plan of its new rows (delta rule, DESIGN §3)."""

    def __init__(
        self,
        spec: JoinSpec,
        statics: Mapping[str, DataFrame],
        windows: Windows,
        columns: Sequence[str],
        projection: Sequence[str],
        leaves: Leaves | None,
    ) -> None:
        """``columns`` are those of the stream. ``projection`` selects from the event time and a struct per relation; empty takes all.

        Rows that are in files are read at ``leaves``.
        """
        self.spec, self.statics, self.windows, self.leaves = spec, statics, windows, leaves
        self.columns, self.projection = columns, projection
        self.named = {relation.name: relation for relation in spec.relations}
        self.counters = _Counters()

    def rows(self, decisions: Mapping[str, JoinDecision], order: Sequence[str]) -> DataFrame:
        """The union of the terms. A term that joins with old rows of another relation is omitted if there are none."""
        self.counters = _Counters()
        places = [i for i, _ in enumerate(order) if self.windows.old is not None or i == len(order) - 1]
        terms = [_Term(self, place, order).run(decisions[order[place]]) for place in places]
        return self._selected(reduce(DataFrame.unionAll, (self._flat(term) for term in terms))).observe(ANSWERS, _counted())

    def observed(self, frame: DataFrame) -> tuple[int, ObservedJoin]:
        """The number of rows, and the operators' row counts, after a DataFrame of these rows was computed."""
        seen = frame._jdf.queryExecution().observedMetrics()
        rows = {name: int(seen.apply(name).getLong(0)) for names in self._names() for name in names if seen.contains(name)}
        found = ObservedJoin(
            {s: [rows[name] for name in names] for s, names in self.counters.operators.items() if {*names} <= {*rows}}
        )
        found.filters = [(name, rows[a], rows[b]) for name, a, b in self.counters.filters if a in rows and b in rows]
        return int(seen.apply(ANSWERS).getLong(0)), found

    def _names(self) -> Iterator[Sequence[str]]:
        yield from self.counters.operators.values()
        yield from ((before, after) for _, before, after in self.counters.filters)

    def _shown(self) -> Iterator[tuple[str, str]]:
        """The relations and columns that the projection can read: a semi or anti join leaves none."""
        for relation in (r for r in self.spec.relations if r.kind in ("inner", "optional")):
            for name in self.statics[relation.name].columns if relation.static else self.columns:
                yield relation.name, name

    def _flat(self, rows: DataFrame) -> DataFrame:
        """The event time, if there is one, and the columns of all relations."""
        streams = [
            f"{quoted(r.name)}.{quoted(self.windows.at(r))}" for r in self.spec.streams if r.time is not None
        ]  # all or none
        at = [f.timestamp_millis(f.greatest(*streams) if len(streams) > 1 else f.col(streams[0])).alias(TIME)] if streams else []
        return rows.select(*at, *(f.col(f"{quoted(relation)}.{quoted(name)}") for relation, name in self._shown()))

    def _selected(self, rows: DataFrame) -> DataFrame:
        """The projection of flat rows. Their union has lost the names of relations, so each column is qualified again."""
        shown = list(self._shown())
        catalyst, plan = Catalyst(rows.sparkSession), analyzed(rows)
        columns = items(plan.output())
        event_time, columns = columns[: -len(shown)], columns[-len(shown) :]
        named = [catalyst.qualified(column, relation) for column, (relation, _) in zip(columns, shown, strict=True)]
        event_time = [catalyst.qualified(column, EVENT) for column in event_time]
        flat = catalyst.frame(catalyst.projected(plan, catalyst.sequence([*event_time, *named])))
        if self.projection:
            is_column = any(name.lower() == TIME for _, name in shown)
            return flat.selectExpr(*(of_event(text) if event_time and is_column else text for text in self.projection))
        structs: dict[str, list[Column]] = {}
        for column, (relation, _) in zip(named, shown):
            structs.setdefault(relation, []).append(catalyst.column(column))
        return flat.select(*map(catalyst.column, event_time), *(f.struct(*some).alias(name) for name, some in structs.items()))


class _Term:
    """One term of the delta rule: the new rows of a relation, all rows of those before it in the order, the old rows of those
    after.
    """

    def __init__(self, joined: Joined, place: int, order: Sequence[str]) -> None:
        self.joined, self.place, self.source, self.before = joined, place, order[place], set(order[:place])
        self.operators: list[str] = []
        self.methods: Sequence[MethodChoice] = ()
        self.due: Sequence[Sequence[str]] = ()

    def run(self, decision: JoinDecision) -> DataFrame:
        """The rows of the term."""
        self.methods, self.due = decision.methods, decision.choice.filters
        rows, _ = self._side(decision.choice.plan)
        self.joined.counters.operators[self.source] = self.operators
        return rows

    def _side(self, plan: Plan) -> tuple[DataFrame, list[JoinInput]]:
        """The rows of a part of the plan, and its relations. Operators are numbered in execution order."""
        named = self.joined.named
        if isinstance(plan, Scan):
            relation = named[plan.relation]
            return self._emit(self._relation(relation)), [relation]
        assert not isinstance(plan, Multiway)  # Spark's cost model has none
        left, before = self._side(plan.input)
        if isinstance(plan, Probe):
            added = [named[plan.relation]]
            right = self._relation(added[0])
        else:
            right, added = self._side(plan.build)
        return self._emit(self._join(left, right, plan.on, before, added)), [*before, *added]

    def _relation(self, relation: JoinInput) -> DataFrame:
        joined = self.joined
        if relation.static:
            return joined.statics[relation.name]
        new = relation.name == self.source or relation.name in self.before
        return joined.windows.rows(relation, joined.spec, new=new, old=relation.name != self.source, leaves=joined.leaves)

    def _join(
        self, left: DataFrame, right: DataFrame, on: Sequence[str], before: Sequence[JoinInput], added: Sequence[JoinInput]
    ) -> DataFrame:
        spec, place = self.joined.spec, len(self.operators)
        keys = [relation.key for relation in before], [relation.key for relation in added]
        if added[0].kind != "inner":
            return left.join(right, f.expr(all_of(spec.joined[added[0].key])), _HOW[added[0].kind])
        conditions = [spec.equality(variable, *keys) for variable in on]
        for one in (r for r in before if r.window is not None):
            for other in (r for r in added if r.window is not None):
                a, b = (f"{quoted(r.name)}.{quoted(self.joined.windows.at(r))}" for r in (one, other))
                conditions += [f"{a} < {b} + {other.window}", f"{b} < {a} + {one.window}"]
        if not on:  # Spark joins by a condition that is part of the join, and filters a product otherwise
            conditions += [spec.between[name] for name in self.due[place]]
        method = self.methods[place]
        if method.by == BROADCAST and not (has_hint(analyzed(left)) or has_hint(analyzed(right))):  # the user's hints hold
            left, right = (left.hint("broadcast"), right) if method.broadcasts_left else (left, right.hint("broadcast"))
        return left.join(right, f.expr(" AND ".join(f"({one})" for one in conditions)) if conditions else None, "inner")

    def _emit(self, rows: DataFrame) -> DataFrame:
        name = f"{self.place}:{len(self.operators)}"
        spec = self.joined.spec
        last = f"{name}:joined"
        due = self.due[len(self.operators)]
        if due:
            rows = rows.observe(last, _counted())
        for number, condition in enumerate(due):
            this = f"{name}:f{number}"
            rows = rows.where(f.expr(spec.between[condition])).observe(this, _counted())
            self.joined.counters.filters.append((condition, last, this))
            last = this
        self.operators.append(name)
        return rows.observe(name, _counted())


_HOW = {"optional": "left", "semi": "leftsemi", "anti": "leftanti"}


_OPERANDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING}
_BEFORE_NAMES = {TokenType.DOT, TokenType.ALIAS, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END, *_OPERANDS}
"""The tokens before the last part of a column's name, or before an alias with or without AS."""


def of_event(text: str) -> str:
    """An expression in which :data:`TIME` without the name of a relation is the event time, although a relation has such a column too.

    ``hour(time) - hour(s.time) AS time`` becomes ``hour(`event time`.`time`) - hour(s.time) AS time``.
    """
    tokens, at, parts = sqlglot.tokenize(text, dialect="spark"), 0, list[str]()
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None]):
        follows = before is not None and before.token_type in _BEFORE_NAMES
        leads = after is not None and after.token_type in (TokenType.DOT, TokenType.L_PAREN, TokenType.STRING)
        if token.text.lower() == TIME and token.token_type is not TokenType.STRING and not follows and not leads:
            parts += text[at : token.start], f"{quoted(EVENT)}.{quoted(TIME)}"
            at = token.end + 1
    return "".join((*parts, text[at:]))


def _counted() -> Column:
    """The expression of a row-count metric."""
    return f.count(f.lit(1)).alias("rows")


@dataclass(frozen=True, slots=True)
class AddedRows:
    """The rows that a batch adds. The first action on ``frame`` computes them, and they are in Spark's cache until they are released.

    ``relation`` is their relation in the cache.
    """

    frame: DataFrame
    joined: Joined
    relation: Any

    @classmethod
    def of(cls, rows: DataFrame, joined: Joined, decisions: Mapping[str, JoinDecision]) -> AddedRows:
        """The rows of ``joined``. Without a shuffle, adaptive execution is off: it would only make each stage a job."""
        unshuffled = {method.by for decision in decisions.values() for method in decision.methods} <= {None, BROADCAST}
        with settings(rows.sparkSession, IN_A_BATCH) if unshuffled else nullcontext():
            frame = rows.persist(StorageLevel.MEMORY_AND_DISK)
            return cls(frame, joined, frame._jdf.queryExecution().withCachedData())

    def count(self) -> int:
        """The number of rows, from a job over all of them."""
        return self.observed(whole=True)[0]

    def observed(self, whole: bool = False) -> tuple[int, ObservedJoin]:
        """The number of rows, and what the operators gave.

        An action such as ``isEmpty()`` computes a part of the rows, and the user may have released them; then, or if ``whole``, one more
        job computes all.
        """
        if not whole and self.relation.cacheBuilder().isCachedColumnBuffersLoaded():
            return self.joined.observed(self.frame)
        counting = self.frame.groupBy().count()
        counting.collect()
        return self.joined.observed(counting)

    def release(self) -> None:
        """Frees the memory of the rows."""
        self.frame.unpersist()


def read_rows(session: SparkSession, schema: StructType, places: Sequence[Path | str]) -> DataFrame:
    """Reads written rows of a stream, from paths or URIs; with the known schema, Spark reads no file footers.

    Without Parquet's filter by dictionaries: it takes -0.0 and 0.0 for different numbers, so that conditions of the user would lose rows.
    """
    return (
        session.read.schema(schema)
        .option("parquet.filter.dictionary.enabled", "false")
        .parquet(*(literal(_uri(place)) for place in places))
    )


def write_rows(frame: DataFrame, place: Path | str, rows: int | None = None) -> None:
    """Writes rows of a stream, replacing the output of an earlier attempt. ``rows`` determines the number of files.

    Without ``rows`` each task writes one file. Raises InputError for a column that Parquet does not take, such as an interval.
    """
    frame = frame if rows is None else frame.coalesce(rows // ROWS_A_FILE + 1)
    spark = frame.sparkSession
    # the session may write times with milliseconds for other readers
    whole = {_TIMES_IN_PARQUET: "TIMESTAMP_MICROS"} if spark.conf.get(_TIMES_IN_PARQUET) == "TIMESTAMP_MILLIS" else {}
    with settings(spark, whole):
        try:
            frame.write.mode("overwrite").parquet(_uri(place))
        except AnalysisException as error:
            why = first_line(error)
            raise InputError(
                f"the rows of windows are kept as Parquet files, which is not possible: {why}: cast or drop it"
            ) from error


def _uri(place: Path | str) -> str:
    return place if isinstance(place, str) else f"file://{to_write(place)}"
