"""``--plan spark``: the delta rule as SQL that Spark plans, as a user of Spark would write it.

Static relations are Parquet tables, analysed when they are first read; windows and deltas are views that report their sizes. FROM
lists the relations in the query's order, WHERE all conditions; Spark's planner decides the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import pandas_udf

from cqels_opt.lod.multiplicities import product_in_sql
from cqels_opt.operators.blocks import BlockFilter
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.rows import Rows
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.spark.relations import Layout, Relations, width
from cqels_opt.spark.tables import Tables


@dataclass(frozen=True, slots=True)
class _Source:
    """A table or view, and its columns by variable (or rank)."""

    name: str
    columns: Mapping[str, str]
    ranks: frozenset[str]
    timed: bool
    counted: bool


class SqlPlanner:
    """Generates the SQL of steps."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self._prefix = tables, tables.prefix
        self.statements: list[str] = []  # of the last step

    def frames(self, spark: SparkSession, tasks: Sequence[EvaluateTask], found: Sequence[Layout], parts: int) -> list[DataFrame]:
        """One query per block; each of its SELECTs is a term of the delta rule."""
        self.statements = []
        for layout in found:
            task = tasks[layout.task]
            block = next(b for b in task.program.blocks if b.name == layout.block)
            named = f"{self._prefix}_is_{layout.number}"
            conditions = [self._condition(spark, task, x, f"{named}_{i}") for i, x in enumerate(block.filters)]
            relations = Relations(spark, self._tables, task, block, parts, sized=True)
            rule = task.step.rules[block.name]
            selects = []
            for source in rule.order:
                sources = self._sources(spark, relations, source, rule.before(source), layout.number)
                selects.append(_select(sources, conditions, layout, width(found)))
            self.statements.append("\nUNION ALL\n".join(selects))
        return [spark.sql(text) for text in self.statements]

    def _sources(
        self, spark: SparkSession, relations: Relations, source: str, with_new: frozenset[str], block: int
    ) -> list[_Source]:
        sources = []
        for number, name in enumerate(relations.block.written):
            if name in relations.statics:
                static = relations.statics[name]
                table = self._tables.get(spark, static, relations.task)
                columns = {v: f"c{i}" for i, v in enumerate(static.variables)}
                sources.append(_Source(table.name, columns, frozenset(), False, table.counted))
                continue
            side = relations.get(name, source, name in with_new)
            kind = "delta" if name == source else "all" if name in with_new else "old"
            view = f"{self._prefix}_{block}_{number}_{kind}"
            side.frame.createOrReplaceTempView(view)
            columns = {v: relations.columns.of[v] for v in (*side.variables, *side.ranks)}
            sources.append(_Source(view, columns, side.ranks, True, False))
        return sources

    def _condition(self, spark: SparkSession, task: EvaluateTask, x: BlockFilter, name: str) -> tuple[str, tuple[str, ...]]:
        """Registers a filter as a Spark function: its name, and the variables of its arguments."""
        variables = tuple(sorted(x.variables))
        make: Any = pandas_udf  # its overloads do not cover functions with any number of columns
        spark.udf.register(name, make(_truth(task, x, variables), "boolean"))
        return name, variables


def _truth(task: EvaluateTask, x: BlockFilter, variables: Sequence[str]) -> Callable[..., pd.Series]:
    def holds(*columns: pd.Series) -> pd.Series:
        arrays = [column.to_numpy(np.int64) for column in columns]
        rows = Rows(dict(zip(variables, arrays[1:])), arrays[0], arrays[0], np.ones_like(arrays[0]))
        return pd.Series(truth(rows, x.condition, task.terms()))

    return holds


def _select(sources: Sequence[_Source], conditions: Sequence[tuple[str, tuple[str, ...]]], layout: Layout, columns: int) -> str:
    """One term of the delta rule."""
    aliases = {f"t{i}": source for i, source in enumerate(sources)}
    places: dict[str, list[str]] = {}
    for alias, source in aliases.items():
        for variable, column in source.columns.items():
            places.setdefault(variable, []).append(f"{alias}.{column}")
    timed = [alias for alias, source in aliases.items() if source.timed]
    ranks = {r for source in sources for r in source.ranks}
    where = [f"{a} = {b}" for variable, found in places.items() if variable not in ranks for a, b in pairwise(found)]
    where += [f"{a}.a < {b}.z AND {b}.a < {a}.z" for a, b in combinations(timed, 2)]
    for function, variables in conditions:
        if all(v in places for v in variables):
            where.append(f"{function}({', '.join([f'{timed[0]}.a', *(places[v][0] for v in variables)])})")
    chosen = [
        f"{layout.number}L AS b",
        f"{_of('greatest', [f'{a}.a' for a in timed])} AS a",
        f"{_of('least', [f'{a}.z' for a in timed])} AS z",
        f"{product_in_sql([f'{a}.n' for a, source in aliases.items() if source.counted])} AS n",
        *(f"{_output(v, places, ranks)} AS c{i}" for i, v in enumerate(layout.names)),
        *(f"0L AS c{i}" for i in range(len(layout.names), columns)),
    ]
    named = ",\n     ".join(f"{source.name} {alias}" for alias, source in aliases.items())
    text = f"SELECT {', '.join(chosen)}\nFROM {named}"
    return text + ("\nWHERE " + "\n  AND ".join(where) if where else "")


def _of(function: str, columns: Sequence[str]) -> str:
    return f"{function}({', '.join(columns)})" if len(columns) > 1 else columns[0]


def _output(name: str, places: Mapping[str, Sequence[str]], ranks: set[str]) -> str:
    if name not in places:
        return "0L"
    return _of("least", places[name]) if name in ranks else places[name][0]
