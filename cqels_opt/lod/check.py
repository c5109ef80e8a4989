"""Describing a store, and verifying that all of it is as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from cqels_opt.errors import StoreError
from cqels_opt.lod.dictionary import DICTIONARY
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, read_header, same_content
from cqels_opt.lod.index import Index
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.order import Ids, is_sorted, run_starts
from cqels_opt.lod.relation import FORMAT as RELATION_FORMAT
from cqels_opt.lod.relation import HEADER as RELATION_HEADER
from cqels_opt.lod.relation import VERSION as RELATION_VERSION
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.store import DEFAULT_GRAPH, GRAPHS, Store
from cqels_opt.rdf.ids import encode
from cqels_opt.stats.frequencies import distinct_values


@dataclass(frozen=True, slots=True)
class PredicateInfo:
    """One vertical partition, described. ``graph`` is None for the default graph."""

    graph: str | None
    predicate: str
    triples: int
    subjects: int
    objects: int


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A store, described.

    ``version`` is that of its format, ``number`` that of its data. ``predicates`` are by graph, the largest first.
    """

    path: Path | str
    version: int
    number: int
    fingerprint: str
    triples: int
    terms: int
    bytes: int
    graphs: tuple[str, ...]
    predicates: tuple[PredicateInfo, ...]
    sources: tuple[dict[str, Any], ...]


def info(path: Path | str) -> StoreInfo:
    """Describe a store; StoreError if it cannot be opened. ``bytes`` are those of its arrays."""
    store = open_store(path)
    header = read_header(store.path / HEADER, FORMAT, VERSION)
    keys = list(store.entries)
    graphs = _names(store, np.array([graph for graph, _ in keys], np.int64))
    predicates = _names(store, np.array([predicate for _, predicate in keys], np.int64))
    rows = []
    for (graph, predicate), graph_name, predicate_name in zip(keys, graphs, predicates):
        partition = store.partition(graph, predicate)
        named = None if graph == DEFAULT_GRAPH else graph_name
        rows.append(PredicateInfo(named, predicate_name, partition.rows, partition.distinct("s"), partition.distinct("o")))
    return StoreInfo(
        path=path,
        version=header["version"],
        number=header["number"],
        fingerprint=store.fingerprint,
        triples=store.triples,
        terms=store.terms,
        bytes=sum(entry.size for entry in store.entries.values())
        + sum(size for part in store.dictionary.parts for size, _ in part.entry.files.values()),
        graphs=tuple(_names(store, store.named_graphs())),
        predicates=tuple(sorted(rows, key=lambda row: (row.graph or "", -row.triples, row.predicate))),
        sources=tuple(store.sources),
    )


def _names(store: Store, ids: Ids) -> list[str]:
    return [text or f"(unknown {term_id:#x})" for text, term_id in zip(store.decode(ids), ids.tolist())]


def check(path: Path | str) -> list[str]:
    """Read all of a store and report damage, one sentence per finding; an intact store has none.

    Verified are the checksum of every file, the sort orders and indexes of the partitions, that each graph is a set, that the
    dictionary has the text of every id, and that each text has its id. StoreError if the store cannot be opened.
    """
    return list(_findings(path))


def _findings(place: Path | str) -> Iterator[str]:
    store = open_store(place)
    store.fetch_all()
    header, path = read_header(store.path / HEADER, FORMAT, VERSION), store.data
    files = {path / DICTIONARY / name: entry for part in header["dictionary"] for name, entry in part["files"].items()}
    damaged = False
    for entry in store.entries.values():
        try:
            described = read_header(path / entry.folder / RELATION_HEADER, RELATION_FORMAT, RELATION_VERSION)
            if described["checksum"] != entry.checksum:
                raise StoreError(f"{path / entry.folder / RELATION_HEADER} is not the one that was loaded")
            files |= {path / entry.folder / name: file for name, file in described["files"].items()}
        except StoreError as error:
            damaged = True
            yield str(error)
    for file, recorded in files.items():
        if not file.exists() or not same_content(file, recorded):
            damaged = True
            yield f"{file} does not have its checksum" if file.exists() else f"{file} is missing"
    if damaged:
        return  # the other findings would follow from that
    if path != store.path and (path / HEADER).exists():  # by which runs open just this version
        own = read_header(path / HEADER, FORMAT, VERSION)
        if own["fingerprint"] != store.fingerprint:
            yield f"{path / HEADER} is not the header of this version"
    yield from _dictionary_findings(store)
    total = 0
    for (graph, predicate), entry in store.entries.items():
        try:
            partition = store.partition(graph, predicate)
        except StoreError as error:
            yield str(error)
            continue
        total += partition.rows if graph != store.quoted else 0
        if partition.rows != entry.triples:
            yield f"{path / entry.folder} has {partition.rows} triples, {HEADER} says {entry.triples}"
        yield from (f"{path / entry.folder}: {finding}" for finding in _partition_findings(store, graph, predicate, partition))
    if total != store.triples:
        yield f"{path / GRAPHS} has {total} triples, {HEADER} says {store.triples}"


def _dictionary_findings(store: Store) -> Iterator[str]:
    last, layer = 0, 0
    for number, part in enumerate(store.dictionary.parts):
        ids, texts = part.ids, part.texts
        if part.entry.layer != layer:
            last, layer = 0, part.entry.layer
        if ids[0] <= last or not is_sorted(ids) or len(run_starts((ids,))) != len(ids):
            yield f"{store.data / DICTIONARY}: the ids of part {number} are not in order"
        last = int(ids[-1])
        wrong = np.flatnonzero(encode(cast("pa.StringArray", texts.cast(pa.string())), store.scheme) != ids)
        if len(wrong):
            first = texts[int(wrong[0])].as_py()
            yield f"{store.data / DICTIONARY}: {len(wrong)} terms of part {number} have other ids, the first is {first}"


def _partition_findings(store: Store, graph: int, predicate: int, partition: Relation) -> Iterator[str]:
    s, o = partition.columns["s"], partition.columns["o"]
    if not is_sorted(s):
        yield "the subjects are not in order"
    if len(run_starts((s, o))) != len(s) or not bool((o[1:] > o[:-1])[s[1:] == s[:-1]].all()):
        yield "the objects of a subject are not in order, or a triple is there twice"
    for variable in ("s", "o"):
        if not _is_index(partition.index((variable,)), partition.columns[variable]):
            yield f"the index on {variable} does not fit the column"
    ids = distinct_values(np.concatenate([s, o, np.array([predicate] + [graph] * (graph != DEFAULT_GRAPH), np.int64)]))
    unknown = ids[~store.contains(ids)]
    if len(unknown):
        yield f"{len(unknown)} ids have no text, the first is {int(unknown[0]):#x}"


def _is_index(index: Index, column: Ids) -> bool:
    """Whether an index of one column leads to each row exactly once, by its value."""
    rows = np.arange(len(column)) if index.rows is None else index.rows
    return (
        len(index.starts) == len(index.keys) + 1
        and bool((np.diff(index.keys) > 0).all())
        and int(index.starts[0]) == 0
        and int(index.starts[-1]) == len(column)
        and np.array_equal(np.sort(rows), np.arange(len(column)))
        and np.array_equal(np.repeat(index.keys, np.diff(index.starts)), column[rows])
    )
