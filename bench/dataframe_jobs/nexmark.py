"""NEXMark's joins over one DataFrame of events, as Flink's NEXMark has it, while the keys of the bids become hot.

In the first half of the stream bids go to many auctions, in the second half to one auction in a hundred.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from cqels_opt.adaptive_join import AdaptiveJoin
from cqels_opt.bench.dataframe_jobs.job import Batch, Case, Contender, Job, names_of, write_stream
from cqels_opt.bench.dataframe_jobs.windows import SETTINGS, Side, WindowJoin, unchanged
from cqels_opt.bench.nexmark import STATES, events
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

SEED, RATE, WINDOW = 1, 1_000, 10
ROWS, QUICK_ROWS, BATCHES, QUICK_BATCHES = 5_000, 1_000, 24, 4


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its relations by name, the kind of their events and whether they are windows; conditions; columns of the answers.

    ``finish`` computes the answers from the rows of the join in a micro-batch.
    """

    title: str
    relations: dict[str, tuple[str, bool]]
    joins: tuple[str, ...]
    where: tuple[str, ...]
    columns: tuple[str, ...]
    finish: Callable[[DataFrame], DataFrame] = unchanged

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the columns of the answers."""
        return (*names_of(self.columns),)


def _highest(rows: DataFrame) -> DataFrame:
    """The highest price of each bid; all rows of a bid come in its micro-batch."""
    return rows.groupBy("bid", "auction").agg({"price": "max"}).withColumnRenamed("max(price)", "price")


CATEGORY = "offers.category = 10"
QUERIES = {
    "q3": Query(
        "who sells in category 10 in three states",
        {"offers": ("auction", True), "people": ("person", True)},
        ("offers.seller = people.person",),
        (CATEGORY, "people.state IN ('OR', 'ID', 'CA')"),
        ("people.name AS name", "people.city AS city", "people.state AS state", "offers.auction AS auction"),
    ),
    "q8": Query(
        "new users who also offer an auction",
        {"people": ("person", True), "offers": ("auction", True)},
        ("offers.seller = people.person",),
        (),
        ("people.person AS person", "people.name AS name", "offers.auction AS auction"),
    ),
    "q9": Query(
        "with each bid, the highest bid so far on its auction",
        {"bids": ("bid", False), "offers": ("auction", True), "others": ("bid", True)},
        ("bids.auction = offers.auction", "bids.auction = others.auction"),
        (),
        ("bids.bid AS bid", "bids.auction AS auction", "others.price AS price"),
        _highest,
    ),
    "q20": Query(
        "bids on the auctions of category 10",
        {"bids": ("bid", True), "offers": ("auction", True)},
        ("bids.auction = offers.auction",),
        (CATEGORY,),
        ("bids.bid AS bid", "bids.price AS price", "offers.auction AS auction", "offers.seller AS seller"),
    ),
    "q23": Query(
        "bids with their auction, the seller and the bidder",
        {"bids": ("bid", True), "offers": ("auction", True), "sellers": ("person", True), "bidders": ("person", True)},
        ("bids.auction = offers.auction", "offers.seller = sellers.person", "bids.bidder = bidders.person"),
        (),
        (
            "bids.bid AS bid",
            "offers.auction AS auction",
            "sellers.name AS seller",
            "bidders.name AS bidder",
            "bids.price AS price",
        ),
    ),
}


# ------------------------------------------------------------------ data
def rows(count: int) -> pd.DataFrame:
    """Events of all kinds in the order of their times; columns that a kind does not have are null."""
    found = events(np.random.default_rng(SEED), count, RATE, drift=True)
    people, offers, bids = (pd.DataFrame(dict(columns)) for columns in (found.persons, found.auctions, found.bids))
    people = people.assign(kind="person", person=people.index, name="Person " + people.index.astype(str))
    people = people.assign(city="City " + people["city"].astype(str), state=np.array(STATES)[people["state"]])
    offers = offers.assign(kind="auction", auction=offers.index)
    bids = bids.assign(kind="bid", bid=bids.index)
    every = pd.concat([people, offers, bids], ignore_index=True).sort_values("t", kind="stable", ignore_index=True)
    numbers = ("person", "auction", "bid", "category", "seller", "bidder", "price", "channel")
    return every.astype(dict.fromkeys(numbers, "Int64")).assign(t=pd.to_datetime(every["t"], unit="ms", utc=True))


def make(folder: Path, quick: bool, given: Path | None) -> str:
    """Writes the stream."""
    size, batches = (QUICK_ROWS, QUICK_BATCHES) if quick else (ROWS, BATCHES)
    write_stream(folder / "stream", rows(size * batches), size, batches)
    return f"generated data (seed {SEED}), {batches} batches of {size:,} events at {RATE:,}/s, windows of {WINDOW} s"


def tables(spark: SparkSession, data: Path) -> dict[str, DataFrame]:
    """There are no static tables."""
    return {}


def _phase(number: int, quick: bool) -> int:
    return number * 2 // (QUICK_BATCHES if quick else BATCHES)


# ------------------------------------------------------------------ contenders
def _adaptive(case: Case, query: Query, plan: str) -> Batch:
    join = AdaptiveJoin(case.spark)
    for name, (_, windowed) in query.relations.items():
        join = join.relation(name, window=f"{WINDOW}s" if windowed else "now", time="t")
    for on in query.joins:
        join = join.on(on)
    for condition in (*(f"{name}.kind = '{kind}'" for name, (kind, _) in query.relations.items()), *query.where):
        join = join.where(condition)

    def sink(found: DataFrame, number: int) -> None:
        case.sink(query.finish(found), number)

    return join.select(*query.columns).batch(then=sink, state=case.state, plan=plan)


def _stream_stream(case: Case, query: Query) -> Batch:
    sides = {name: Side(f"kind = '{kind}'", WINDOW if windowed else 0) for name, (kind, windowed) in query.relations.items()}
    near = [  # each row begins while the others are valid
        f"{one}.t < {other}.t + INTERVAL {WINDOW} SECONDS" if sides[other].seconds else f"{one}.t <= {other}.t"
        for one in sides
        for other in sides
        if one != other
    ]
    first, *others = sides
    text = f"SELECT {', '.join(query.columns)} FROM {first} {' '.join(f'JOIN {name}' for name in others)} "
    text += f"WHERE {' AND '.join((*query.joins, *query.where, *near))}"
    return WindowJoin(sides, text, query.finish).stream_stream(case)


def _job(name: str, query: Query) -> Job:
    return Job(
        f"nexmark-{name}",
        f"NEXMark {name}: {query.title}, while auctions become hot",
        make,
        tables,
        {
            "adaptive": Contender(partial(_adaptive, query=query, plan="adaptive")),
            "static": Contender(partial(_adaptive, query=query, plan="static")),
            "stream-stream": Contender(partial(_stream_stream, query=query)),
        },
        query.answers,
        base="adaptive",
        settings=SETTINGS,
        phases=("many auctions", "hot auctions"),
        phase=_phase,
    )


JOBS = tuple(_job(name, query) for name, query in QUERIES.items())
