"""What tests of replanned joins share: small random tables with difficult values, bags of rows, and a query in all its join orders."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from cqels_opt.plans.plan import Plan, filters
from cqels_opt.spark.catalyst import Catalyst
from cqels_opt.spark.join_query import read
from cqels_opt.spark.join_run import JoinRun
from cqels_opt.spark.replanned_join import ReplannedJoin
from cqels_opt.spark.versions import BEFORE_4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Query = Callable[["DataFrame"], "DataFrame"]
Bag = Counter[Any]

VIEWS = "id int, who int, item bigint, x double, d decimal(10,2), s string, at timestamp, day date, st struct<f:int,g:string>"
FOLLOWS = "who bigint, follower int, x double, d decimal(12,4), w string"
OFFERS = "item int, price double, opened timestamp, tag string, st struct<f:int,g:string>"
PEOPLE = "who int, name string, boss int, born date"
PLACES = "code string, city string, rank int"

_DOUBLES = [0.0, -0.0, math.nan, 1.5, 2.0, 3.0, None]
_TEXTS = ["a", "A", "b", "B", "ä", "", " a", None]
_DAYS = [date(2024, 3, 31), date(2024, 3, 30), date(2024, 10, 27), None]
_TIMES = [  # midnight in Berlin, twice, and around changes of the clock
    *(datetime(2024, 3, day, 23, tzinfo=UTC) for day in (29, 30)),
    *(datetime(2024, month, day, 0, 30, tzinfo=UTC) for month, day in ((3, 31), (10, 27))),
    None,
]


def canonical(value: Any) -> Any:
    """A value that equals itself and has a hash; -0.0 and 0.0 differ, and so do decimals of different scale."""
    if isinstance(value, float | Decimal):
        return repr(value)
    if isinstance(value, tuple | list):
        return tuple(map(canonical, value))
    if isinstance(value, dict):
        return frozenset((canonical(k), canonical(v)) for k, v in value.items())
    return value


def bag(frame: DataFrame) -> Bag:
    """The rows of a DataFrame, each with its number."""
    return Counter(canonical(tuple(row)) for row in frame.collect())


class Collected:
    """A sink that keeps the bag of each batch, and the columns."""

    def __init__(self) -> None:
        self.bags: dict[int, Bag] = {}
        self.columns: list[str] = []

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.bags[number], self.columns = bag(frame), frame.columns


@dataclass(frozen=True, slots=True)
class Tables:
    """The static tables, as files, and micro-batches of views."""

    follows: DataFrame
    offers: DataFrame
    people: DataFrame
    places: DataFrame
    batches: tuple[DataFrame, ...]


def _key(some: random.Random) -> int | None:
    """A skewed key: half are 1, some are null."""
    return some.choice([1, 1, 1, 1, 2, 3, 4, 5, None])


def _struct(some: random.Random) -> tuple[int | None, str] | None:
    return some.choice([(1, "a"), (1, "b"), (None, "a"), (2, "A"), None])


def _views(some: random.Random, count: int) -> Iterator[tuple[Any, ...]]:
    for number in range(count):
        money = some.choice([Decimal("1.50"), Decimal("2.00"), Decimal("0.00"), None])
        times = some.choice(_TIMES), some.choice(_DAYS)
        yield number, _key(some), _key(some), some.choice(_DOUBLES), money, some.choice(_TEXTS), *times, _struct(some)


def frame_of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame with the rows of a table; Spark 3.5 makes none of Arrow's."""
    if BEFORE_4:
        return spark.createDataFrame(table.to_pylist(), from_arrow_schema(table.schema))
    return spark.createDataFrame(table)


def make_tables(spark: SparkSession, folder: Path, seed: int = 7) -> Tables:
    """Tables of 8 to 14 rows with nulls and duplicates, and three micro-batches."""
    some = random.Random(seed)
    money = [Decimal("1.5000"), Decimal("2.0000"), Decimal("2.0001"), Decimal("0.0000"), None]
    follows = [(_key(some), number % 5, some.choice(_DOUBLES), some.choice(money), some.choice(_TEXTS)) for number in range(14)]
    offers = [(_key(some), some.choice(_DOUBLES), some.choice(_TIMES), some.choice(_TEXTS), _struct(some)) for _ in range(12)]
    people = [(_key(some), some.choice(_TEXTS), _key(some), some.choice(_DAYS)) for _ in range(10)]
    places = [(some.choice(_TEXTS), f"city {number % 3}", _key(some)) for number in range(8)]
    frames = {}
    for name, rows, schema in (
        ("follows", [*follows, follows[0]], FOLLOWS),
        ("offers", [*offers, offers[0]], OFFERS),
        ("people", people, PEOPLE),
        ("places", places, PLACES),
    ):
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(f"file://{folder}/{name}")
        frames[name] = spark.read.parquet(f"file://{folder}/{name}")
    batches = tuple(micro_batch(spark, list(_views(some, size))) for size in (9, 16, 24))
    return Tables(frames["follows"], frames["offers"], frames["people"], frames["places"], batches)


def micro_batch(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str = VIEWS) -> DataFrame:
    """Rows as Spark gives them to ``foreachBatch``: an RDD of the JVM."""
    return spark.createDataFrame(list(rows), schema).localCheckpoint()


def orders(
    spark: SparkSession, query: Query, frame: DataFrame, function: JoinRun, most: int | None = None
) -> Iterator[tuple[Plan, DataFrame]]:
    """A query with its joins in each retained order, or in ``most`` of them, the most expensive first. ``function`` has run it."""
    assert isinstance(function, ReplannedJoin)
    assert function._replanner is not None
    planner = function._replanner.planner
    assert planner is not None
    joined = read(Catalyst(spark), query(frame), frame)
    plans = [ranked.plan for ranked in planner.optimizer.alternatives(joined.stream, 200)]
    if most is not None and len(plans) > most:
        plans = [plans[-1 - i * (len(plans) - 1) // max(1, most - 1)] for i in range(most)]
    for number, plan in enumerate(plans):
        side = (None, "right", "left")[number % 3]
        yield plan, joined.rebuilt(plan, filters(plan, joined.graph), lambda place, side=side: side)[0]  # type: ignore[misc]


def differences(expected: Bag, found: Bag) -> str:
    """The rows of which there are too few or too many."""
    return f"missing {list((expected - found).items())[:4]}, added {list((found - expected).items())[:4]}"
