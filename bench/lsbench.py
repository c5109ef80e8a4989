"""A social network in the vocabulary of LSBench (Le-Phuoc et al. 2012), seeded and vectorised: posts, photos and likes as streams.

Static data say who knows whom, who subscribes to which channel, and which account a person has. A post has a creator, a channel and a
tag; a photo has a creator, two tagged users and a place; a like is of an earlier post or photo, half of them by a friend of its creator.
The places of users are a fourth kind of stream: one for each :data:`EVENTS_PER_PLACE` of the other events.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.graph_streams import Ints, Terms, integers, numbered, write_graphs
from cqels_opt.bench.social import START
from cqels_opt.errors import InputError

SIB, SIOC, FOAF = "http://www.ins.cwi.nl/sib/vocabulary/", "http://rdfs.org/sioc/ns#", "http://xmlns.com/foaf/0.1/"
GEO = "http://www.w3.org/2003/01/geo/wgs84_pos#"
DATA = "http://www.ins.cwi.nl/sib/"
POSTS, POST_LIKES = "http://deri.org/poststream", "http://deri.org/likedpoststream"
PHOTOS, PHOTO_LIKES = "http://deri.org/photostream", "http://deri.org/likedphotostream"
SHARES = (0.3, 0.3, 0.2, 0.2)
"""The shares of posts, likes of posts, photos and likes of photos."""
PLACES = "http://deri.org/gpsstream"
EVENTS_PER_PLACE = 5
SIDE = 1000
"""Latitude and longitude are whole numbers below SIDE."""
RECENT = 500
"""Likes are of the last RECENT posts or photos."""


def lsbench(
    folder: Path,
    request: Request,
    *,
    users: int = 2_000,
    friends: int = 10,
    channels: int = 200,
    subscriptions: int = 5,
    tags: int = 50,
) -> Data:
    """Writes ``static.nt`` and one Parquet file per stream. Each user names ``friends`` others, and knows those who name her."""
    if request.rate is None:
        raise InputError("the generator lsbench needs stream.rates")
    if users <= friends:
        raise InputError(f"data.friends: must be less than the {users} users, not {friends}")
    random = np.random.default_rng(request.seed)
    named = random.integers(0, users, (users, friends))
    static = _static(folder, random, named, channels, subscriptions)
    kind = random.choice(4, request.elements, p=SHARES)
    times = START + (np.arange(request.elements) * 1000 / request.rate).astype(np.int64)
    files = {iri: folder / f"{iri.rpartition('/')[2]}.parquet" for iri in (POSTS, POST_LIKES, PHOTOS, PHOTO_LIKES, PLACES)}

    count = int((kind == 0).sum())
    posts, writers = numbered(DATA + "post/", np.arange(count)), random.integers(0, users, count)
    triples = write_graphs(
        files[POSTS],
        posts,
        [
            (numbered(DATA + "user/", writers), SIOC + "creator_of", posts),
            (numbered(DATA + "channel/", random.integers(0, channels, count)), SIOC + "container_of", posts),
            (posts, SIB + "hashtag", numbered(DATA + "tag/", random.integers(0, tags, count))),
        ],
        times[kind == 0],
    )
    count = int((kind == 2).sum())
    photos, owners = numbered(DATA + "photo/", np.arange(count)), random.integers(0, users, count)
    tagged = random.integers(0, users, count)
    places = np.random.default_rng((request.seed, 1))
    triples += write_graphs(
        files[PHOTOS],
        photos,
        [
            (numbered(DATA + "user/", owners), SIOC + "creator_of", photos),
            (photos, SIB + "usertag", numbered(DATA + "user/", tagged)),
            (photos, SIB + "usertag", numbered(DATA + "user/", (tagged + random.integers(1, users, count)) % users)),
            *_place(places, photos),
        ],
        times[kind == 2],
    )
    for stream, item, like, iri, known in ((POST_LIKES, 0, 1, "post/", writers), (PHOTO_LIKES, 2, 3, "photo/", tagged)):
        triples += _likes(files[stream], random, kind, times, (item, like), DATA + iri, named, known)
    moments = times[::EVENTS_PER_PLACE]
    tracked, there = (
        numbered(DATA + "user/", places.integers(0, users, len(moments))),
        numbered(DATA + "place/", np.arange(len(moments))),
    )
    triples += write_graphs(files[PLACES], there, [(tracked, SIB + "tracked_at", there), *_place(places, there)], moments)
    described = (
        f"{request.elements:,} events, {triples:,} triples in {len(files)} streams; {users:,} users, {channels:,} channels"
    )
    return Data(files, (static,), {}, described)


def _place(random: np.random.Generator, subjects: Terms) -> list[tuple[Terms, str, Terms]]:
    """Latitude and longitude of each subject."""
    return [(subjects, GEO + axis, integers(random.integers(0, SIDE, len(subjects)))) for axis in ("lat", "long")]


def _likes(
    path: Path, random: np.random.Generator, kind: Ints, times: Ints, kinds: tuple[int, int], iri: str, named: Ints, known: Ints
) -> int:
    """Likes of items of one kind. Nobody likes an item twice; ``known`` is the user of each item whose friends like it more often."""
    item, like = kinds
    there = np.cumsum(kind == item)[kind == like]
    what = there - 1 - random.integers(0, np.clip(there, 1, RECENT))
    possible = there > 0
    what, when = what[possible], times[kind == like][possible]
    friend = named[known[what], random.integers(0, named.shape[1], len(what))]
    who = np.where(random.random(len(what)) < 0.5, friend, random.integers(0, len(named), len(what)))
    _, first = np.unique(what * len(named) + who, return_index=True)
    first.sort()
    users, items = numbered(DATA + "user/", who[first]), numbered(iri, what[first])
    return write_graphs(path, numbered(iri.rstrip("/") + "-like/", first), [(users, SIB + "like", items)], when[first])


def _static(folder: Path, random: np.random.Generator, named: Ints, channels: int, subscriptions: int) -> Path:
    users, friends = named.shape
    one, other = np.repeat(np.arange(users), friends), named.ravel()
    knows = np.unique(np.concatenate([one * users + other, other * users + one])[np.tile(one != other, 2)])
    subscribed = np.unique(
        np.repeat(np.arange(users), subscriptions) * channels + random.integers(0, channels, users * subscriptions)
    )
    path = folder / "static.nt"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"<{DATA}user/{u}> <{SIOC}account_of> <{DATA}person/{u}> .\n" for u in range(users))
        for pair in knows.tolist():
            file.write(f"<{DATA}user/{pair // users}> <{FOAF}knows> <{DATA}user/{pair % users}> .\n")
        for pair in subscribed.tolist():
            file.write(f"<{DATA}user/{pair // channels}> <{SIOC}subscriber_of> <{DATA}channel/{pair % channels}> .\n")
    return path
