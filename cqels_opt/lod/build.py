"""Writing a store: from quads of canonical terms to partitions, dictionary and header in a folder that appears at once.

The pieces (:func:`encode_quads`, :func:`write_partitions`, :func:`~cqels_opt.lod.dictionary.write_part`, :func:`finish`) are what
executors and driver call when a store is loaded in parallel; :func:`build_store` does it all in one process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cqels_opt.errors import StoreError
from cqels_opt.lod.dictionary import PartEntry, write_part
from cqels_opt.lod.files import text_checksum, write_header
from cqels_opt.lod.index import Ids, run_starts
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.store import (
    DEFAULT_GRAPH,
    DICTIONARY,
    FORMAT,
    GRAPHS,
    HEADER,
    VERSION,
    PartitionEntry,
    Store,
    array_bytes,
    graph_name,
)
from cqels_opt.rdf.ids import DEFAULT_SEED, encode
from cqels_opt.rdf.quads import Quad, Quads

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


def encode_quads(quads: Quads, seed: int) -> EncodedQuads:
    """Encode quads of canonical terms: each distinct term is hashed once."""
    ids = encode(quads.terms, seed)
    # the last entry stands for a missing graph
    encoded = np.append(ids, DEFAULT_GRAPH)[quads.codes]
    return EncodedQuads(encoded[0], encoded[1], encoded[2], encoded[3], ids, quads.terms)


def write_partitions(store: Path, s: Ids, p: Ids, o: Ids, g: Ids) -> list[PartitionEntry]:
    """Write the vertical partitions of these quads, which must be all that their (graph, predicate) pairs have."""
    if not len(s):
        return []
    order = np.lexsort((o, s, p, g))
    columns = [column[order] for column in (g, p, s, o)]
    distinct = run_starts(columns)
    g, p, s, o = (column[distinct] for column in columns)
    starts = run_starts((g, p))
    entries = []
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(s)]):
        graph, predicate = int(g[start]), int(p[start])
        folder = store / GRAPHS / graph_name(graph) / f"{predicate:016x}"
        checksum = Relation.build({"s": s[start:end], "o": o[start:end]}).save(folder, [("s",), ("o",)])
        entries.append(PartitionEntry(graph, predicate, end - start, array_bytes(folder), checksum))
    return entries


@contextmanager
def temporary(target: Path) -> Iterator[Path]:
    """A folder beside the target to write a store in; it is gone afterwards unless :func:`finish` has moved it."""
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_target(target: Path) -> None:
    """Raise StoreError unless a store may be written there: a new path, an empty folder or an old store."""
    if target.exists() and not target.is_dir():
        raise StoreError(f"{target} is a file: name a folder for the store")
    if target.is_dir() and any(target.iterdir()) and not (target / HEADER).is_file():
        raise StoreError(f"{target} is a folder with other files in it: name a new folder for the store")


def finish(
    folder: Path,
    target: Path,
    *,
    seed: int,
    partitions: Iterable[PartitionEntry],
    parts: Iterable[PartEntry],
    graphs: Iterable[int],
    sources: Iterable[dict[str, Any]],
    durable: bool = True,
) -> Store:
    """Write the header of a store whose partitions and dictionary lie in ``folder``, move it to ``target``, and open it.

    What is written is flushed to the disk before it appears at the target, unless the store need not outlive a crash
    (``durable=False``).

    An old store at the target is replaced; who has it open keeps what is mapped and learns of the change at the next partition.
    """
    rows = sorted(partitions, key=lambda entry: (entry.graph, entry.predicate))
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "seed": seed,
        "triples": sum(entry.triples for entry in rows),
        "graphs": sorted({DEFAULT_GRAPH, *graphs, *(entry.graph for entry in rows)}),
        "partitions": [list(entry) for entry in rows],
        "dictionary": [asdict(part) for part in sorted(parts, key=lambda part: part.first)],
    }
    # what the content is, whatever files it came from
    content["fingerprint"] = text_checksum(repr(content))
    write_header(folder / HEADER, {**content, "sources": list(sources)})
    if durable:
        # one call for all files: a vertical partition has eight, and an fsync each would take longer than the load
        os.sync()
    check_target(target)
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        target.rename(old / "old")
        folder.rename(target)
        shutil.rmtree(old)
    else:
        folder.rename(target)
    return Store.open(target)


def build_store(
    path: Path, quads: Iterable[Quad], *, seed: int = DEFAULT_SEED, graphs: Iterable[str] = (), durable: bool = True
) -> Store:
    """Write a store of these quads of canonical terms, in this process. ``graphs`` exist even if they have no triple."""
    rest = iter(quads)
    encoded = []
    while chunk := list(islice(rest, CHUNK)):
        encoded.append(encode_quads(Quads.of(chunk), seed))
    names = pa.array(list(graphs), pa.string())
    graph_ids = encode(names, seed)
    with temporary(path) as folder:
        partitions, parts = write_all(folder, encoded, (graph_ids, names))
        return finish(
            folder, path, seed=seed, partitions=partitions, parts=parts, graphs=graph_ids.tolist(), sources=[], durable=durable
        )


def write_all(
    folder: Path, encoded: Sequence[EncodedQuads], further: tuple[Ids, pa.StringArray]
) -> tuple[list[PartitionEntry], list[PartEntry]]:
    """Write the partitions and the dictionary, in one part, of all these quads and further terms."""
    empty = np.empty(0, np.int64)
    columns = [np.concatenate([empty, *(getattr(quads, name) for quads in encoded)]) for name in "spog"]
    partitions = write_partitions(folder, *columns)
    ids = np.concatenate([further[0], *(quads.term_ids for quads in encoded)])
    texts = pa.concat_arrays([further[1], *(quads.term_texts for quads in encoded)])
    part = write_part(folder / DICTIONARY, "0", ids, texts)
    return partitions, [part] if part else []
