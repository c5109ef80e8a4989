"""The tasks of a parallel load, as plain functions over files: no Spark, and no data in their results.

A small load is one task (:func:`load_pieces`). A large one has two stages. :func:`spill_pieces` parses and encodes its pieces and
writes them by bucket of (graph, predicate) pairs and range of subjects. Then :func:`gather_quads` writes the vertical partitions of
one bucket, one range of subjects at a time, and :func:`gather_terms` one part of the dictionary, each from all spills. So a task
holds one piece of the source or one range in memory, for any size of data and any skew of predicates.

An attempt writes to files and folders of its own, and only those reported to the driver count, so a task can be retried at any
time. A store for an object store is written here first; :func:`upload_files` then uploads it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from cqels_opt.lod.build import EncodedQuads, by_partition, encode_quads, encode_static, write_all, write_partitions
from cqels_opt.lod.dictionary import DICTIONARY, PartEntry, distinct_terms, write_part
from cqels_opt.lod.files import load_mapped
from cqels_opt.lod.key_search import mix
from cqels_opt.lod.object_store_cache import upload
from cqels_opt.lod.order import Ids
from cqels_opt.lod.partition import PartitionWriter
from cqels_opt.lod.store import PartitionEntry, array_bytes
from cqels_opt.rdf.ids import KIND_IRI, KIND_LITERAL, KIND_SHIFT, IdScheme
from cqels_opt.rdf.static import Failure, Failures, Piece, graph_term, read
from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import naming

_KINDS: Final = KIND_LITERAL - KIND_IRI + 2  # of hashed ids; the last are triple terms


class Slice(NamedTuple):
    """Rows of a spilled file."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Spill:
    """The files of one task of the first stage, ``<name>.quads.npy`` and ``<name>.terms.arrow``, and where their cuts start.

    The quads of a bucket are contiguous, cut into ``ranges`` of subjects.
    """

    name: str
    ranges: int
    quad_starts: tuple[int, ...]
    term_starts: tuple[int, ...]

    def quads(self, bucket: int) -> tuple[Slice, ...]:
        """The quads of a bucket, one slice per range of subjects."""
        starts = self.quad_starts[bucket * self.ranges : (bucket + 1) * self.ranges + 1]
        return tuple(Slice(f"{self.name}.quads.npy", start, end) for start, end in pairwise(starts))

    def terms(self, number: int) -> Slice:
        """The terms of an id range."""
        return Slice(f"{self.name}.terms.arrow", self.term_starts[number], self.term_starts[number + 1])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The report of a task to the driver: counts, failures and the names of its files, in a folder of its own."""

    read: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = ()
    graphs: tuple[int, ...] = ()
    folder: str = ""
    partitions: tuple[PartitionEntry, ...] = ()
    parts: tuple[PartEntry, ...] = ()
    spill: Spill | None = None


Task: TypeAlias = Callable[[], Outcome]


@dataclass(slots=True)
class _Input:
    """Pieces that have been read and encoded."""

    quads: list[EncodedQuads] = field(default_factory=list)
    read: int = 0
    graph_ids: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    graph_texts: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()))


def _read(pieces: Iterable[Piece], scheme: IdScheme, failures: Failures) -> _Input:
    result = _Input()
    names: dict[str, None] = {}
    for piece in pieces:
        name = graph_term(piece)
        if name is not None:
            names[name] = None
        for quads in read(piece, failures):
            if len(quads):
                result.quads.append(encode_quads(quads, scheme))
                result.read += len(quads)
    # a given named graph exists even if its file is empty
    result.graph_texts = pa.array(list(names), pa.string())
    result.graph_ids = encode_static(result.graph_texts, scheme)
    return result


def load_pieces(pieces: Sequence[Piece], folder: Path, scheme: IdScheme, skip: bool) -> Outcome:
    """Everything in one task: read the pieces, and write all partitions and the dictionary."""
    failures = Failures(skip)
    found = _read(pieces, scheme, failures)
    own = _own_folder(folder)
    partitions, parts = write_all(own, found.quads, (found.graph_ids, found.graph_texts))
    return Outcome(
        read=found.read,
        skipped=failures.count,
        failures=tuple(failures.first),
        graphs=tuple(found.graph_ids.tolist()),
        folder=own.name,
        partitions=tuple(partitions),
        parts=tuple(parts),
    )


@dataclass(frozen=True, slots=True)
class Cuts:
    """Into how many parts a large load is cut: buckets of predicates, ranges of subjects in each, and ranges of ids per kind of term.

    Ranges are a power of two.
    """

    buckets: int
    subjects: int
    terms: int


def spill_pieces(pieces: Sequence[Piece], folder: Path, scheme: IdScheme, skip: bool, cuts: Cuts) -> Outcome:
    """First stage: read the pieces, and write their quads by bucket and range of subjects, and their distinct terms by id range."""
    failures = Failures(skip)
    found = _read(pieces, scheme, failures)
    name = uuid.uuid4().hex
    empty = np.empty(0, np.int64)
    quads = np.array([np.concatenate([empty, *(getattr(q, column) for q in found.quads)]) for column in "spog"])
    subjects = cuts.subjects * _KINDS
    cell = bucket_of(quads[3], quads[1], cuts.buckets) * subjects + range_of(quads[0], cuts.subjects)
    order = np.argsort(cell)
    path = folder / f"{name}.quads.npy"
    with naming(path), disk.create(path) as file:
        np.save(file, quads[:, order])
    ids = np.concatenate([found.graph_ids, *(q.term_ids for q in found.quads)])
    distinct, texts = distinct_terms(ids, pa.concat_arrays([found.graph_texts, *(q.term_texts for q in found.quads)]))
    table = pa.table({"id": pa.array(distinct), "text": texts})
    path = folder / f"{name}.terms.arrow"
    with naming(path), disk.create(path) as file, pa.ipc.new_file(cast("Any", file), table.schema) as writer:
        writer.write_table(table)
    return Outcome(
        read=found.read,
        skipped=failures.count,
        failures=tuple(failures.first),
        graphs=tuple(found.graph_ids.tolist()),
        spill=Spill(
            name,
            subjects,
            tuple(np.searchsorted(cell[order], np.arange(cuts.buckets * subjects + 1)).tolist()),
            tuple(np.searchsorted(range_of(distinct, cuts.terms), np.arange(_KINDS * cuts.terms + 1)).tolist()),
        ),
    )


def gather_quads(ranges: Sequence[Sequence[Slice]], folder: Path) -> Outcome:
    """Second stage: write the vertical partitions of one bucket, whose ``ranges`` of subjects follow one another."""
    own = _own_folder(folder)
    if len(ranges) == 1:
        return Outcome(folder=own.name, partitions=tuple(write_partitions(own, *_read_quads(ranges[0], folder))))
    writers: dict[tuple[int, int], PartitionWriter] = {}
    for slices in ranges:
        for graph, predicate, s, o in by_partition(*_read_quads(slices, folder)):
            writer = writers.get((graph, predicate))
            if writer is None:
                place = PartitionEntry(graph, predicate, 0, 0, "").folder
                writer = writers[graph, predicate] = PartitionWriter(own / place)
            writer.append(s, o)
    partitions = []
    for (graph, predicate), writer in writers.items():
        checksum = writer.close()
        partitions.append(PartitionEntry(graph, predicate, writer.rows, array_bytes(writer.folder), checksum))
    return Outcome(folder=own.name, partitions=tuple(partitions))


def _read_quads(slices: Sequence[Slice], folder: Path) -> tuple[Ids, Ids, Ids, Ids]:
    mapped = [load_mapped(folder / file)[0][:, start:end] for file, start, end in slices]
    s, p, o, g = np.concatenate([np.empty((4, 0), np.int64), *mapped], axis=1)
    return s, p, o, g


def gather_terms(slices: Sequence[Slice], folder: Path, name: str) -> Outcome:
    """Second stage: write the part of the dictionary that holds one id range; collisions between spills are found here."""
    tables = []
    for file, start, end in slices:
        with pa.memory_map(str(folder / file)) as source:
            tables.append(pa.ipc.open_file(source).read_all().slice(start, end - start))
    ids = np.concatenate([table.column("id").to_numpy() for table in tables])
    texts = pa.concat_arrays([chunk for table in tables for chunk in table.column("text").chunks])
    own = _own_folder(folder)
    part = write_part(own / DICTIONARY, name, ids, cast("pa.StringArray", texts))
    return Outcome(folder=own.name, parts=(part,) if part else ())


def upload_files(folder: Path, names: Sequence[str], uri: str, fingerprint: str) -> Outcome:
    """Last stage of a load into an object store: take some of the files there."""
    upload(folder, names, uri, fingerprint)
    return Outcome()


def dictionary_ranges(ranges: int) -> int:
    """The maximum number of parts of a dictionary, per kind of hashed term."""
    return _KINDS * ranges


def bucket_of(graphs: Ids, predicates: Ids, buckets: int) -> Ids:
    """The bucket of each quad: all quads of a (graph, predicate) pair are in one."""
    return (mix((graphs, predicates)).view(np.uint64) % np.uint64(buckets)).astype(np.int64)


def range_of(ids: Ids, ranges: int) -> Ids:
    """The number of each hashed id's range; the ranges (a power of two a kind) follow one another in the order of the ids."""
    kind: Ids = np.minimum((ids >> KIND_SHIFT) - KIND_IRI, _KINDS - 1)
    within = (ids >> (KIND_SHIFT - (ranges.bit_length() - 1))) & (ranges - 1)
    return kind * ranges + within


def _own_folder(folder: Path) -> Path:
    own = folder / uuid.uuid4().hex
    own.mkdir()
    return own
