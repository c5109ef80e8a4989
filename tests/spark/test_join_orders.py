"""Random queries over random tables: in every join order that the optimizer retains they have Spark's own answers."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

import cqels_opt as cq
from cqels_opt.spark.session import settings

from .join_orders import Collected, bag, differences, frame_of_table, orders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES: dict[str, Any] = {"a": pa.int32(), "b": pa.int64(), "c": pa.string(), "d": pa.float64()}
KINDS = ("inner", "inner", "inner", "left", "semi", "anti")


@pytest.fixture(scope="module", autouse=True)
def small(spark: SparkSession) -> Iterator[None]:
    with settings(spark, {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}):
        yield


class RandomQuery:
    """A left-deep or bushy tree of 2 to 5 tables and the micro-batch, with random conditions."""

    def __init__(self, spark: SparkSession, seed: int) -> None:
        self.some = random.Random(seed)
        self.tables = [self._table(spark, self.some.randrange(2, 9)) for _ in range(self.some.randrange(2, 6))]
        self.stream = self._table(spark, 12).localCheckpoint()
        self.seed = seed

    def _table(self, spark: SparkSession, rows: int) -> DataFrame:
        """Keys of which half are 1, a few null, and NaN and -0.0."""
        some = self.some
        columns: dict[str, list[Any]] = {
            "a": [some.choice([1, 1, 1, 2, 3, None]) for _ in range(rows)],
            "b": [some.choice([1, 1, 2, 4, None]) for _ in range(rows)],
            "c": [some.choice(["1", "x", "X", "", None]) for _ in range(rows)],
            "d": [some.choice([1.0, 2.0, 0.0, -0.0, float("nan"), None]) for _ in range(rows)],
        }
        return frame_of_table(spark, pa.table(columns, pa.schema(TYPES)))

    def __call__(self, views: DataFrame) -> DataFrame:
        """The query, the same in each call; its text is :attr:`text`."""
        some = random.Random(self.seed)
        left, names, self.text = views.alias("v"), ["v"], "v"
        waiting = [(f"r{i}", table.alias(f"r{i}")) for i, table in enumerate(self.tables)]
        while waiting:
            name, right = waiting.pop(0)
            added, kind = [name], some.choice(KINDS)
            if waiting and kind == "inner" and some.random() < 0.3:  # a bushy part
                other, frame = waiting.pop(0)
                how = some.choice(KINDS[2:])
                on = self._condition(some, added, other, how != "inner")
                right, inside = right.join(frame, f.expr(on), how), f"({name} {how} {other} ON {on})"
                added += [other] if how in ("inner", "left") else []
            else:
                inside = name
            on = self._condition(some, names, added[0], kind != "inner")
            left, self.text = left.join(right, f.expr(on), kind), f"{self.text} {kind} {inside} ON {on}"
            names += added if kind in ("inner", "left") else []
            if some.random() < 0.3:
                where = self._filter(some, names)
                left, self.text = left.where(where), f"{self.text} WHERE {where}"
        if some.random() < 0.3:
            key = f"{some.choice(names)}.a"
            return left.groupBy(key).agg(f.count("*"), f.sum("v.b"), f.max(f"{some.choice(names)}.c"))
        return left.select(*(f.expr(f"{name}.*") for name in names))

    def _condition(self, some: random.Random, known: list[str], new: str, more: bool) -> str:
        one = some.choice(known)
        equal = some.choice(
            [f"{one}.a = {new}.a"] * 3
            + [
                f"{one}.a = {new}.b",
                f"{one}.b = {new}.a",
                f"{one}.a + 1 = {new}.b",
                f"lower({one}.c) = {new}.c",
                f"{one}.d = {new}.d",
            ]
            + [f"{one}.a = {new}.d", f"{one}.a <=> {new}.a AND {one}.c = {new}.c", f"{one}.a = {new}.a AND {one}.a = {new}.b"]
        )
        if some.random() < (0.4 if more else 0.2):
            other = some.choice(known)
            return f"{equal} AND " + some.choice(
                [f"{other}.a <= {new}.a", f"{new}.b > 1", f"{other}.b IS NOT NULL", f"{other}.a + {one}.a = {new}.a + 1"]
            )
        return equal

    def _filter(self, some: random.Random, names: list[str]) -> str:
        one, other = some.choice(names), some.choice(names)
        return some.choice(
            [
                f"{one}.a > 1 OR {other}.c = 'x'",
                f"{one}.a = {other}.b",
                f"{one}.c IS NULL",
                f"coalesce({one}.a, 2) >= {other}.b",
                f"NOT ({one}.a <=> {other}.a)",
                f"{one}.d = {other}.d OR {one}.b IS NULL",
                f"length({one}.c) + {other}.a < 3",
            ]
        )


def check(spark: SparkSession, seed: int, most: int | None) -> int:
    """The number of the orders that were compared."""
    gc.collect()
    query, sink, compared = RandomQuery(spark, seed), Collected(), 0
    function = cq.adaptive(query).batch(sink, plan="worst")
    function(query.stream, 0)
    assert function.last is not None
    expected = bag(query(query.stream))
    assert sink.bags[0] == expected, f"{query.text}\n{function.plans()}: {differences(expected, sink.bags[0])}"
    if function.last.notices:
        return 0
    for plan, frame in orders(spark, query, query.stream, function, most):
        assert (found := bag(frame)) == expected, f"{query.text}\n{plan}: {differences(expected, found)}"
        compared += 1
    return compared


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_some_join_orders_of_random_queries(spark: SparkSession, seed: int) -> None:
    assert check(spark, seed, 4) > 0


@pytest.mark.long
@pytest.mark.parametrize("part", range(4, 14))
def test_all_join_orders_of_random_queries(spark: SparkSession, part: int) -> None:
    """Those of queries with many orders are a sample."""
    check(spark, part, 12)
