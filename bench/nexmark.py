"""NEXMark (Tucker, Tufte, Papadimos & Maier 2008) as RDF: persons, auctions and bids as streams of graphs, seeded and vectorised.

The proportions are the benchmark's: of 50 events one is a person, three are auctions and 46 are bids. A share of the bids goes to hot
auctions, and of the auctions to hot sellers. Static data describe the channels in which bids are made and the categories of auctions.
"""

from __future__ import annotations

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
    """Writes ``static.nt`` and one Parquet file per stream. ``active`` auctions get bids and ``active`` persons act at any time.

    A share ``hot`` of the bids goes to one auction in ``active``. With ``drift`` there is no hot auction in the first half of the
    stream, and all bids go to hot auctions in the second half.
    """
    if request.rate is None:
        raise InputError("the generator nexmark needs stream.rates")
    random = np.random.default_rng(request.seed)
    number = np.arange(request.elements)
    place = number % CYCLE
    is_person = place < PERSONS_IN_CYCLE
    is_auction = ~is_person & (place < PERSONS_IN_CYCLE + AUCTIONS_IN_CYCLE)
    is_bid = ~is_person & ~is_auction
    times = START + (number * 1000 / request.rate).astype(np.int64)
    # How many there are up to each event.
    persons, auctions = np.cumsum(is_person, dtype=np.int64), np.cumsum(is_auction, dtype=np.int64)
    share = np.full(len(number), hot)
    if drift:
        share = np.where(number < len(number) // 2, 0.0, 1.0)

    def chosen(known: Ints, hot_share: NDArray[np.float64]) -> Ints:
        """One of the last ``active`` things for each event, the hot one with probability ``hot_share``."""
        recent = np.maximum(known - 1 - random.integers(0, active, len(known)), 0)
        hottest = np.maximum(known - 1, 0) // active * active
        return np.where(random.random(len(known)) < hot_share, hottest, recent)

    count = int(is_person.sum())
    triples = write_graphs(
        folder / "persons.parquet",
        things := numbered(DATA + "person/", np.arange(count)),
        [
            (things, NS + "name", texts("Person ", np.arange(count))),
            (things, NS + "city", texts("City ", random.integers(0, CITIES, count))),
            (things, NS + "state", np.array([f'"{state}"' for state in STATES])[random.integers(0, len(STATES), count)]),
        ],
        times[is_person],
    )
    count = int(is_auction.sum())
    triples += write_graphs(
        folder / "auctions.parquet",
        things := numbered(DATA + "auction/", np.arange(count)),
        [
            (things, NS + "item", texts("Item ", np.arange(count))),
            (things, NS + "category", numbered(DATA + "category/", random.integers(0, categories, count))),
            (things, NS + "seller", numbered(DATA + "person/", chosen(persons[is_auction], np.full(count, hot)))),
        ],
        times[is_auction],
    )
    count = int(is_bid.sum())
    triples += write_graphs(
        folder / "bids.parquet",
        things := numbered(DATA + "bid/", np.arange(count)),
        [
            (things, NS + "auction", numbered(DATA + "auction/", chosen(auctions[is_bid], share[is_bid]))),
            (things, NS + "bidder", numbered(DATA + "person/", chosen(persons[is_bid], np.full(count, hot)))),
            (things, NS + "price", integers(np.rint(100 * 10 ** (3 * random.random(count))).astype(np.int64))),
            (things, NS + "channel", numbered(DATA + "channel/", random.integers(0, channels, count))),
        ],
        times[is_bid],
    )
    static = _static(folder, random, categories, channels)
    described = f"{len(number):,} events, {triples:,} triples in 3 streams; {channels:,} channels and {categories} categories"
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
