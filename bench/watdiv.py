"""A shop in the vocabulary of WatDiv (Aluç et al. 2014), with streams as in Stream-WatDiv (Gao et al. 2018), seeded and vectorised.

Streams are of likes (a user likes a product), purchases and reviews. Some products are far more popular than others (``skew``). Static
data say who is a friend of whom and where users live, and give products a genre, a caption and retailers that offer them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.graph_streams import Ints, integers, numbered, write_graphs
from cqels_opt.bench.social import START
from cqels_opt.errors import InputError

WSDBM = DATA = "http://db.uwaterloo.ca/~galuc/wsdbm/"
REV, GR, SORG = "http://purl.org/stuff/rev#", "http://purl.org/goodrelations/", "http://schema.org/"
LIKES, PURCHASES, REVIEWS = WSDBM + "stream/likes", WSDBM + "stream/purchases", WSDBM + "stream/reviews"
SHARES = (0.5, 0.3, 0.2)
"""The shares of likes, purchases and reviews."""


def watdiv(
    folder: Path,
    request: Request,
    *,
    users: int = 5_000,
    products: int = 2_000,
    friends: int = 10,
    genres: int = 20,
    retailers: int = 50,
    cities: int = 40,
    skew: float = 2.0,
) -> Data:
    """Writes ``static.nt`` and one Parquet file per stream. A user is a friend of ``friends`` others; nobody likes a product twice."""
    if request.rate is None:
        raise InputError("the generator watdiv needs stream.rates")
    if users <= friends:
        raise InputError(f"data.friends: must be less than the {users} users, not {friends}")
    random = np.random.default_rng(request.seed)
    count = request.elements
    times = START + (np.arange(count) * 1000 / request.rate).astype(np.int64)
    kind, user = random.choice(3, count, p=SHARES), random.integers(0, users, count)
    product = (products * random.random(count) ** skew).astype(np.int64)
    pair = user * products + product
    _, first = np.unique(np.where(kind == 0, pair, -1 - np.arange(count)), return_index=True)
    new = np.zeros(count, bool)
    new[first] = True
    files = {iri: folder / f"{iri.rpartition('/')[2]}.parquet" for iri in (LIKES, PURCHASES, REVIEWS)}

    def graphs(number: int, iri: str) -> tuple[Ints, Ints, Ints]:
        """The indexes of the events of a kind, and the terms of their users and products."""
        chosen = np.flatnonzero((kind == number) & new)
        return chosen, user[chosen], product[chosen]

    at, who, what = graphs(0, LIKES)
    liked = [(numbered(DATA + "User", who), WSDBM + "likes", numbered(DATA + "Product", what))]
    triples = write_graphs(files[LIKES], numbered(DATA + "Like", at), liked, times[at])
    at, who, what = graphs(1, PURCHASES)
    things = numbered(DATA + "Purchase", at)
    bought = [
        (numbered(DATA + "User", who), WSDBM + "makesPurchase", things),
        (things, WSDBM + "purchaseFor", numbered(DATA + "Product", what)),
    ]
    triples += write_graphs(files[PURCHASES], things, bought, times[at])
    at, who, what = graphs(2, REVIEWS)
    things = numbered(DATA + "Review", at)
    reviewed = [
        (numbered(DATA + "Product", what), REV + "hasReview", things),
        (things, REV + "reviewer", numbered(DATA + "User", who)),
        (things, REV + "rating", integers(random.integers(1, 11, len(at)))),
    ]
    triples += write_graphs(files[REVIEWS], things, reviewed, times[at])
    static = _static(folder, random, users, products, friends, genres, retailers, cities)
    described = f"{int(new.sum()):,} events, {triples:,} triples in 3 streams; {users:,} users, {products:,} products"
    return Data(files, (static,), {}, described)


def _static(
    folder: Path, random: np.random.Generator, users: int, products: int, friends: int, genres: int, retailers: int, cities: int
) -> Path:
    path = folder / "static.nt"
    one, other = np.repeat(np.arange(users), friends), random.integers(0, users, users * friends)
    befriended = np.unique((one * users + other)[one != other])
    city, genre = random.integers(0, cities, users), random.integers(0, genres, products)
    offers = np.unique(np.repeat(np.arange(products), 3) * retailers + random.integers(0, retailers, 3 * products))
    with path.open("w", encoding="utf-8") as file:
        for pair in befriended.tolist():
            file.write(f"<{DATA}User{pair // users}> <{WSDBM}friendOf> <{DATA}User{pair % users}> .\n")
        file.writelines(f"<{DATA}User{i}> <{WSDBM}livesIn> <{DATA}City{c}> .\n" for i, c in enumerate(city.tolist()))
        for i, g in enumerate(genre.tolist()):
            file.write(f"<{DATA}Product{i}> <{WSDBM}hasGenre> <{DATA}Genre{g}> .\n")
            file.write(f'<{DATA}Product{i}> <{SORG}caption> "Product {i}" .\n')
        for number, pair in enumerate(offers.tolist()):
            file.write(f"<{DATA}Retailer{pair % retailers}> <{GR}offers> <{DATA}Offer{number}> .\n")
            file.write(f"<{DATA}Offer{number}> <{GR}includes> <{DATA}Product{pair // retailers}> .\n")
    return path
