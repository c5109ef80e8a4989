"""Queries over a micro-batch as DataFrames that Spark plans: of a declared join, and of SQL."""

from __future__ import annotations

import os
from functools import cached_property

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import InputError, first_line
from cqels_opt.relational.column_names import quoted
from cqels_opt.relational.conditions import all_of
from cqels_opt.spark.catalyst import LogicalPlan, in_session, relations_of, same_session, temporary_view
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
            self._session, self._frames = session, {}
        for relation in declared.spec.relations:
            current = declared.current(relation.name, number) if relation.static else frame
            if self._frames.get(relation.name) is not current:
                in_session(current, session).createOrReplaceTempView(f"{self._prefix}_{relation.name}")
                self._frames[relation.name] = current
        try:
            return session.sql(self.text)
        except AnalysisException as error:
            columns = "; ".join(f"{name} has {', '.join(one.columns)}" for name, one in self._frames.items())
            what = first_line(error).partition(" SQLSTATE: ")[0]  # then comes a place in a text that the user has not written
            raise InputError(f"{what} The relations: {columns}") from error

    def _view(self, name: str) -> str:
        return f"{self._prefix}_{name} AS {quoted(name)}"


def query_of_sql(spark: SparkSession, query: str, stream: str | None) -> Build:
    """The query as a function of the micro-batch and its id, and nothing else."""
    try:
        tree = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    except ParseException as error:
        raise InputError(f"adaptive_sql: {first_line(error)}") from error
    if stream is None:
        single = [leaf for leaf in relations_of(tree) if leaf.multipartIdentifier().size() == 1]
        unknown = sorted({_name(leaf) for leaf in single if not spark.catalog.tableExists(leaf.tableName())})
        if len(unknown) != 1:
            found = f"{', '.join(unknown)} are" if unknown else "none of its names is"
            raise InputError(f"adaptive_sql: {found} unknown to Spark; name the one of the micro-batch by stream=NAME")
        stream = unknown[0]
    name = stream.strip("`")

    def build(frame: DataFrame, number: int) -> DataFrame:
        with temporary_view(frame, name):
            return frame.sparkSession.sql(query)

    return build


def _name(relation: LogicalPlan) -> str:
    """The name of a relation of one part, in lower case, because Spark ignores case."""
    return str(relation.multipartIdentifier().apply(0)).lower()


__all__ = ["DataFrame", "PlainJoin", "SparkSession", "query_of_sql"]
