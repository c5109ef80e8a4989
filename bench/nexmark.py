"""NEXMark (Tucker, Tufte, Papadimos & Maier 2008) as RDF: persons, auctions and bids as streams of graphs, seeded and vectorised.

The proportions are the benchmark's: of 50 events one is a person, three are auctions and 46 are bids. A share of the bids goes to hot
auctions, and of the auctions to hot sellers. Static data describe the channels in which bids are made and the categories of auctions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.graph_streams import Ints, integers, numbered, texts, write_graphs
from cqels_opt.bench.social import START
from cqels_opt.errors import InputError

NS, DATA = "http://example.org/nexmark#", "http://example.org/nexmark/"
PERSONS, AUCTIONS, BIDS = NS + "persons", NS + "auctions", NS + "bids"
CYCLE, PERSONS_IN_CYCLE, AUCTIONS_IN_CYCLE = 50, 1, 3
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = 40


@dataclass(frozen=True, slots=True)
class Events:
    """Columns of each kind of event: numbers of things, in the order of the time ``t`` (milliseconds). A thing's number is its place."""

    persons: Mapping[str, Ints]
    auctions: Mapping[str, Ints]
    bids: Mapping[str, Ints]


def events(
    random: np.random.Generator,
    count: int,
    rate: float,
    *,
    hot: float = 0.5,
    active: int = 100,
    categories: int = 20,
    channels: int = 2_000,
    drift: bool = False,
) -> Events:
    """``active`` auctions get bids and ``active`` persons act at any time. A share ``hot`` of the bids goes to one auction in ``active``.

    With ``drift`` there is no hot auction in the first half of the stream, and all bids go to hot auctions in the second half.
    """
    number = np.arange(count)
    place = number % CYCLE
    is_person = place < PERSONS_IN_CYCLE
    is_auction = ~is_person & (place < PERSONS_IN_CYCLE + AUCTIONS_IN_CYCLE)
    is_bid = ~is_person & ~is_auction
    times = START + (number * 1000 / rate).astype(np.int64)
    # How many there are up to each event.
    persons, auctions = np.cumsum(is_person, dtype=np.int64), np.cumsum(is_auction, dtype=np.int64)
    share = np.full(count, hot)
    if drift:
        share = np.where(number < count // 2, 0.0, 1.0)

    def chosen(known: Ints, hot_share: NDArray[np.float64]) -> Ints:
        """One of the last ``active`` things for each event, the hot one with probability ``hot_share``."""
        recent = np.maximum(known - 1 - random.integers(0, active, len(known)), 0)
        hottest = np.maximum(known - 1, 0) // active * active
        return np.where(random.random(len(known)) < hot_share, hottest, recent)

    def usual(known: Ints) -> Ints:
        return chosen(known, np.full(len(known), hot))

    new = int(is_person.sum())
    of_persons = {
        "city": random.integers(0, CITIES, new),
        "state": random.integers(0, len(STATES), new),
        "t": times[is_person],
    }
    of_auctions = {
        "category": random.integers(0, categories, int(is_auction.sum())),
        "seller": usual(persons[is_auction]),
        "t": times[is_auction],
    }
    new = int(is_bid.sum())
    of_bids = {
        "auction": chosen(auctions[is_bid], share[is_bid]),
        "bidder": usual(persons[is_bid]),
        "price": np.rint(100 * 10 ** (3 * random.random(new))).astype(np.int64),
        "channel": random.integers(0, channels, new),
        "t": times[is_bid],
    }
    return Events(of_persons, of_auctions, of_bids)


def nexmark(
    folder: Path,
    request: Request,
    *,
    hot: float = 0.5,
    active: int = 100,
    categories: int = 20,
    channels: int = 2_000,
    drift: bool = False,
) -> Data:
    """Writes ``static.nt`` and one Parquet file per stream, with the :func:`events`."""
    if request.rate is None:
        raise InputError("the generator nexmark needs stream.rates")
    random = np.random.default_rng(request.seed)
    found = events(
        random, request.elements, request.rate, hot=hot, active=active, categories=categories, channels=channels, drift=drift
    )
    columns = found.persons
    numbers = np.arange(len(columns["t"]))
    triples = write_graphs(
        folder / "persons.parquet",
        things := numbered(DATA + "person/", numbers),
        [
            (things, NS + "name", texts("Person ", numbers)),
            (things, NS + "city", texts("City ", columns["city"])),
            (things, NS + "state", np.array([f'"{state}"' for state in STATES])[columns["state"]]),
        ],
        columns["t"],
    )
    columns = found.auctions
    numbers = np.arange(len(columns["t"]))
    triples += write_graphs(
        folder / "auctions.parquet",
        things := numbered(DATA + "auction/", numbers),
        [
            (things, NS + "item", texts("Item ", numbers)),
            (things, NS + "category", numbered(DATA + "category/", columns["category"])),
            (things, NS + "seller", numbered(DATA + "person/", columns["seller"])),
        ],
        columns["t"],
    )
    columns = found.bids
    triples += write_graphs(
        folder / "bids.parquet",
        things := numbered(DATA + "bid/", np.arange(len(columns["t"]))),
        [
            (things, NS + "auction", numbered(DATA + "auction/", columns["auction"])),
            (things, NS + "bidder", numbered(DATA + "person/", columns["bidder"])),
            (things, NS + "price", integers(columns["price"])),
            (things, NS + "channel", numbered(DATA + "channel/", columns["channel"])),
        ],
        columns["t"],
    )
    static = _static(folder, random, categories, channels)
    described = (
        f"{request.elements:,} events, {triples:,} triples in 3 streams; {channels:,} channels and {categories} categories"
    )
    return Data({iri: folder / f"{iri.removeprefix(NS)}.parquet" for iri in (PERSONS, AUCTIONS, BIDS)}, (static,), {}, described)


def _static(folder: Path, random: np.random.Generator, categories: int, channels: int) -> Path:
    """Channels belong to companies, companies to countries; categories have names."""
    path, companies, countries = folder / "static.nt", max(1, channels // 20), 30
    owner, home = random.integers(0, companies, channels), random.integers(0, countries, companies)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f'<{DATA}category/{i}> <{NS}label> "Category {i}" .\n' for i in range(categories))
        file.writelines(f"<{DATA}channel/{i}> <{NS}owner> <{DATA}company/{c}> .\n" for i, c in enumerate(owner.tolist()))
        file.writelines(f"<{DATA}company/{i}> <{NS}country> <{DATA}country/{c}> .\n" for i, c in enumerate(home.tolist()))
        file.writelines(f'<{DATA}country/{i}> <{NS}label> "Country {i}" .\n' for i in range(countries))
    return path
