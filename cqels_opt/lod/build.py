"""Writing a store: from quads of canonical terms to partitions and dictionary.

Executors and driver call the parts when they load in parallel (:func:`encode_quads`, :func:`write_partitions`,
:func:`~cqels_opt.lod.dictionary.write_part`, :func:`~cqels_opt.lod.atomic_publish.finish`); :func:`build_store` does everything in
one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from cqels_opt.lod.atomic_publish import finish, load_place, scheme_for
from cqels_opt.lod.dictionary import DICTIONARY, PartEntry, write_part
from cqels_opt.lod.order import Ids, run_starts, sorted_order
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.store import DEFAULT_GRAPH, GRAPHS, PartitionEntry, Store, array_bytes, graph_name
from cqels_opt.lod.triple_terms import TERMS_GRAPH, parts_of_terms
from cqels_opt.rdf.ids import CollisionError, IdScheme, chosen, encode, encode_one
from cqels_opt.rdf.quads import Quad, Quads

Written = TypeVar("Written")

#: Quads that are encoded at a time.
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class EncodedQuads:
    """Quads as ids (``g`` is 0 in the default graph), with the distinct terms that occur in them."""

    s: Ids
    p: Ids
    o: Ids
    g: Ids
    term_ids: Ids
    term_texts: pa.StringArray


def encode_quads(quads: Quads, scheme: IdScheme) -> EncodedQuads:
    """Encode quads of canonical terms; each distinct term is hashed once. The parts of triple terms become quads as well."""
    parts = parts_of_terms(quads.terms)
    if parts is not None:
        quads = Quads.concat([quads, parts])
    ids = encode_static(quads.terms, scheme)
    # the last entry is a missing graph
    encoded = np.append(ids, DEFAULT_GRAPH)[quads.codes]
    return EncodedQuads(encoded[0], encoded[1], encoded[2], encoded[3], ids, quads.terms)


def encode_static(texts: pa.StringArray, scheme: IdScheme) -> Ids:
    """The ids of terms of static data. CollisionError if one is the id of the graph of triple terms, which every store has."""
    ids = encode(texts, scheme)
    taken = ids == encode_one(TERMS_GRAPH, scheme)
    if losers := [text for text in chosen(texts, taken) if text != TERMS_GRAPH]:
        raise CollisionError(losers)
    return ids


def by_partition(s: Ids, p: Ids, o: Ids, g: Ids) -> Iterator[tuple[int, int, Ids, Ids]]:
    """The different (s, o) of each graph and predicate, in their order."""
    if not len(s):
        return
    order = sorted_order((g, p, s, o))
    columns = [column[order] for column in (g, p, s, o)]
    distinct = run_starts(columns)
    g, p, s, o = (column[distinct] for column in columns)
    starts = run_starts((g, p))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(s)]):
        yield int(g[start]), int(p[start]), s[start:end], o[start:end]


def write_partitions(store: Path, s: Ids, p: Ids, o: Ids, g: Ids) -> list[PartitionEntry]:
    """Write the vertical partitions of these quads, which must be all that their (graph, predicate) pairs have."""
    entries = []
    for graph, predicate, subjects, objects in by_partition(s, p, o, g):
        folder = store / GRAPHS / graph_name(graph) / f"{predicate:016x}"
        checksum = Relation.build({"s": subjects, "o": objects}).save(folder, [("s",), ("o",)])
        entries.append(PartitionEntry(graph, predicate, len(subjects), array_bytes(folder), checksum))
    return entries


def build_store(
    path: Path,
    quads: Iterable[Quad],
    *,
    scheme: IdScheme | None = None,
    graphs: Iterable[str] = (),
    durable: bool = True,
) -> Store:
    """Write a store of these quads of canonical terms, in this process. ``graphs`` exist even if they have no triple.

    Without a ``scheme`` the store gets a key of its own.
    """
    rest = iter(quads)
    chunks = []
    while chunk := list(islice(rest, CHUNK)):
        chunks.append(Quads.of(chunk))
    names = pa.array(list(graphs), pa.string())
    with load_place(path) as place:
        folder = place.folder / "store"

        def written(scheme: IdScheme) -> Store:
            graph_ids = encode_static(names, scheme)
            partitions, parts = write_all(folder, [encode_quads(chunk, scheme) for chunk in chunks], (graph_ids, names))
            return finish(
                folder,
                place,
                scheme=scheme,
                partitions=partitions,
                parts=parts,
                graphs=graph_ids.tolist(),
                sources=[],
                durable=durable,
            )

        return without_collisions(scheme or scheme_for(path), written)


def without_collisions(scheme: IdScheme, write: Callable[[IdScheme], Written]) -> Written:
    """The result of ``write`` under the scheme. If terms collide, ``write`` runs again, with second ids for the later terms."""
    while True:
        try:
            return write(scheme)
        except CollisionError as error:
            scheme = scheme.displacing(error.losers)


def write_all(
    folder: Path, encoded: Sequence[EncodedQuads], further: tuple[Ids, pa.StringArray]
) -> tuple[list[PartitionEntry], list[PartEntry]]:
    """Write the partitions and the dictionary, in one part, of all these quads and further terms."""
    empty = np.empty(0, np.int64)
    ids = np.concatenate([further[0], *(quads.term_ids for quads in encoded)])
    texts = pa.concat_arrays([further[1], *(quads.term_texts for quads in encoded)])
    part = write_part(folder / DICTIONARY, "0", ids, texts)  # first: if terms collide, nothing is written
    columns = [np.concatenate([empty, *(getattr(quads, name) for quads in encoded)]) for name in "spog"]
    return write_partitions(folder, *columns), [part] if part else []
