"""Queries over a micro-batch as DataFrames that Spark plans: of a declared join, and of SQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from weakref import finalize

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import InputError, first_line
from cqels_opt.relational.column_names import quoted
from cqels_opt.relational.conditions import all_of
from cqels_opt.spark.catalyst import LogicalPlan, in_session, is_statement, relations_of, same_session, temporary_view
from cqels_opt.spark.join_inputs import unresolved
from cqels_opt.spark.replanned_join import Build
from cqels_opt.spark.windowed_join import Declared

_HOW = {"optional": "LEFT OUTER", "semi": "LEFT SEMI", "anti": "LEFT ANTI"}


class PlainJoin:
    """The answers of a declared join without windows, as one SQL query: the stream, then each relation as soon as a condition connects it.

    Spark reads a text in a fraction of the time that a method call per join takes. Relations are temporary views, one per version.
    """

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self._prefix = f"cqels_opt_{os.urandom(4).hex()}"
        self._frames: dict[str, DataFrame] = {}
        self._session: SparkSession | None = None
        self._drop: Callable[[], object] = lambda: None

    @cached_property
    def text(self) -> str:
        """The query."""
        spec = self.declared.spec
        (stream,) = spec.streams
        lines, joined, conditions = [f"FROM {self._view(stream.name)}"], {stream.key}, list(spec.conditions)
        waiting = [r for r in spec.relations if r.static and r.kind == "inner"]
        while waiting:
            able = (r for r in waiting if any({r.key} < c.relations <= joined | {r.key} for c in conditions))
            relation = next(able, waiting[0])
            waiting.remove(relation)
            joined.add(relation.key)
            on = [c for c in conditions if relation.key in c.relations and c.relations <= joined]
            conditions = [c for c in conditions if c not in on]
            how = f"INNER JOIN {self._view(relation.name)} ON {all_of(on)}" if on else f"CROSS JOIN {self._view(relation.name)}"
            lines.append(how)
        for unit in (r for r in spec.relations if r.kind != "inner"):
            lines.append(f"{_HOW[unit.kind]} JOIN {self._view(unit.name)} ON {all_of(spec.joined[unit.key])}")
        if conditions:
            lines.append(f"WHERE {all_of(conditions)}")
        shown = (quoted(r.name) for r in spec.relations if r.kind in ("inner", "optional"))
        columns = self.declared.projection or [f"struct({name}.*) AS {name}" for name in shown]
        return "\n".join([f"SELECT {', '.join(columns)}", *lines])

    def __call__(self, frame: DataFrame, number: int) -> DataFrame:
        """The answers of a micro-batch. Raises InputError for a column that does not exist."""
        declared, session = self.declared, frame.sparkSession
        if not same_session(self._session, session):
            self._drop()
            self._session, self._frames = session, {}
            self._drop = finalize(self, _drop_views, session, [self._view_of(r.name) for r in declared.spec.relations])
            self._drop.atexit = False
        for relation in declared.spec.relations:
            current = declared.current(relation.name, number) if relation.static else frame
            if self._frames.get(relation.name) is not current:
                in_session(current, session).createOrReplaceTempView(self._view_of(relation.name))
                self._frames[relation.name] = current
        try:
            return session.sql(self.text)
        except AnalysisException as error:
            raise unresolved(error, {name: one.columns for name, one in self._frames.items()}) from error

    def _view(self, name: str) -> str:
        return f"{self._view_of(name)} AS {quoted(name)}"

    def _view_of(self, name: str) -> str:
        return f"{self._prefix}_{name}"


def _drop_views(session: SparkSession, views: Sequence[str]) -> None:
    """Removes the views of a join that nothing refers to any more."""
    with suppress(Py4JError, PySparkException):  # the session has ended
        for view in views:
            session.catalog.dropTempView(view)


def table_named(spark: SparkSession, table: str, relation: str) -> DataFrame:
    """The table or view of a relation. Raises InputError if there is none."""
    try:
        return spark.table(table)
    except AnalysisException as error:
        raise InputError(f"relation({relation!r}): {first_line(error)}") from error


def query_of_sql(spark: SparkSession, query: str, stream: str | None) -> Build:
    """The query as a function of the micro-batch and its id, and nothing else."""
    for given, what in ((query, "a query"), (stream or "", "stream=NAME")):
        if not isinstance(given, str):
            raise InputError(f"adaptive_sql(…) expects {what} as a string, not {type(given).__name__}")
    try:
        tree = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    except ParseException as error:
        raise InputError(f"adaptive_sql: {first_line(error)}") from error
    if is_statement(spark, tree):
        raise InputError("adaptive_sql: this is no query; give the SELECT alone, and write its answers in then(df, batch_id)")
    single = [leaf for leaf in relations_of(tree) if leaf.multipartIdentifier().size() == 1]
    is_case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    names = sorted({_name(leaf, is_case_sensitive) for leaf in single})
    if stream is None:
        missing = (leaf for leaf in single if not spark.catalog.tableExists(leaf.tableName()))
        unknown = sorted({_name(leaf, is_case_sensitive) for leaf in missing})
        if len(unknown) != 1:
            found = f"{', '.join(unknown)} are" if unknown else "none of its names is"
            others = "; the others have to be tables or temporary views" if unknown else ""
            raise InputError(f"adaptive_sql: {found} unknown to Spark; name the one of the micro-batch by stream=NAME{others}")
        stream = unknown[0]
    name = stream.strip("`")
    if name not in names and (is_case_sensitive or name.lower() not in map(str.lower, names)):
        raise InputError(f"adaptive_sql: the query does not read stream={stream!r}; it reads {', '.join(names) or 'nothing'}")

    def build(frame: DataFrame, number: int) -> DataFrame:
        with temporary_view(frame, name):
            return without_streams(frame.sparkSession.sql(query), "adaptive_sql")

    return build


def without_streams(found: DataFrame, where: str) -> DataFrame:
    """The answers of a micro-batch. InputError if their query reads a stream."""
    if found.isStreaming:
        raise InputError(
            f"{where}: the query joins the micro-batch with a streaming DataFrame; AdaptiveJoin joins several streams, over their union"
        )
    return found


def _name(relation: LogicalPlan, is_case_sensitive: bool) -> str:
    """The name of a relation of one part; in lower case if Spark ignores case."""
    name = str(relation.multipartIdentifier().apply(0))
    return name if is_case_sensitive else name.lower()


__all__ = ["DataFrame", "PlainJoin", "SparkSession", "query_of_sql", "table_named", "without_streams"]
