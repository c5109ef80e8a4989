"""The next version of a store: some triples removed, others added, unchanged files shared with the version before.

Removal comes first, as with SPARQL's ``DELETE DATA`` followed by ``INSERT DATA``. A changed vertical partition is written again, in
one pass over its sorted rows; the files of all others are hard links. New terms become a layer of the dictionary. Terms stay after
their last triple is removed, because running queries may hold their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.errors import DataError, StoreError
from cqels_opt.lod.atomic_publish import LoadPlace, Origin, as_recorded, finish, load_place
from cqels_opt.lod.build import EncodedQuads, by_partition, encode_quads, encode_static, without_collisions
from cqels_opt.lod.dictionary import DICTIONARY, Dictionary, PartEntry, distinct_terms, write_part
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, read_header
from cqels_opt.lod.load import LoadReport
from cqels_opt.lod.locations import is_uri, shown
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.order import Ids, run_starts, sorted_order
from cqels_opt.lod.partition import MERGED, PartitionWriter
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.snapshots import UPDATES, StoreVersion, store_of, version_at
from cqels_opt.lod.store import PartitionEntry, Store, array_bytes
from cqels_opt.rdf.ids import CollisionError, IdScheme, chosen
from cqels_opt.rdf.quoted import have_blank_nodes
from cqels_opt.rdf.static import Failures, StaticSource, graph_term, pieces, read
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import BLOCKS
from cqels_opt.storage.compaction_policy import runs_to_merge
from cqels_opt.storage.locks import exclusive_lock

Key = tuple[int, int]
Rows = tuple[Ids, Ids]
_NONE: Final = (np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """The result of an update: the version, and how many triples were added and removed. ``reasons`` are the first lines left out."""

    store: Path
    number: int
    added: int
    removed: int
    triples: int
    skipped: int
    reasons: tuple[str, ...]


def update(
    store: Path | str,
    add: Sequence[StaticSource] = (),
    remove: Sequence[StaticSource] = (),
    *,
    on_error: Literal["fail", "skip"] = "fail",
    durable: bool = True,
) -> UpdateReport:
    """Make the next version of a store in a folder: without the triples of ``remove``, with those of ``add``.

    The version appears whole or not at all. Updates of one store wait for each other, and loads that replace it wait for updates.
    Raises DataError for a bad line (unless ``on_error`` is ``skip``) and for a blank node in ``remove``, which no file can name;
    StoreError if there is no store that can be updated.
    """
    if is_uri(store):
        raise StoreError(
            f"{shown(str(store))}: a store is updated in a folder: update it there, and load it into the object store again"
        )
    target = Path(store)
    if (whole := store_of(target)) is not None:
        raise StoreError(f"{target}: it is a version of the store {whole}: update the store")
    if not (target / HEADER).is_file():
        raise StoreError(f"{target}: there is no store; cqels-opt load makes one")
    with exclusive_lock(target / UPDATES):  # of two concurrent updates of one version, one would be lost
        version = version_at(target)
        origin = Origin(version.lineage, Path(version.place).name)
        with load_place(target) as place:
            made, changes, failures = _written(place, version, add, remove, on_error, durable, origin)
        reasons = tuple(map(str, failures.first))
        return UpdateReport(target, version.number + 1, changes.added, changes.removed, made.triples, failures.count, reasons)


def extend(
    store: Path,
    sources: Sequence[StaticSource],
    target: Path,
    *,
    on_error: Literal["fail", "skip"] = "fail",
    durable: bool = True,
) -> LoadReport:
    """Make a new store of a version of a store, and of files. Files that do not change are shared with that version.

    The report counts distinct quads as ``read``.

    Raises DataError for a bad line (unless ``on_error`` is ``skip``), StoreError if one of the two cannot be a store.
    """
    with load_place(target) as place:
        made, changes, failures = _written(place, version_at(store), sources, (), on_error, durable)
    return LoadReport(
        path=target,
        fingerprint=made.fingerprint,
        read=sum(len(s) for (graph, _), (s, _) in changes.come.items() if graph != made.quoted),
        triples=made.triples,
        terms=made.terms,
        graphs=len(made.named_graphs()),
        skipped=failures.count,
        failures=tuple(failures.first),
    )


def _written(
    place: LoadPlace,
    version: StoreVersion,
    add: Sequence[StaticSource],
    remove: Sequence[StaticSource],
    on_error: Literal["fail", "skip"],
    durable: bool,
    origin: Origin | None = None,
) -> tuple[Store, _Changes, Failures]:
    """Publishes a version with some quads fewer and some more: as the next one after its ``origin``, or as a store of its own. Both have
    the next number, after which files of new terms are named: those that are linked keep their names."""
    old, number = open_store(version.place), version.number + 1
    files = int(read_header(Path(version.place) / HEADER, FORMAT, VERSION)["files"])
    names = pa.array([name for source in add if (name := graph_term(source)) is not None], pa.string())

    def written(scheme: IdScheme) -> tuple[Store, _Changes, Failures]:
        failures = Failures(on_error == "skip")
        gone = list(_read(remove, files, scheme, failures, named=True))
        come = list(_read(add, files, scheme, failures))
        new = _new_terms(old, scheme, gone, come, names)  # first: if terms collide, nothing is written
        changes = _Changes(old, gone, come)
        folder = place.folder / "store"
        partitions = [changes.write(key, folder) for key in changes.keys]
        made = finish(
            folder,
            place,
            scheme=scheme,
            partitions=[entry for entry in partitions if entry is not None],
            parts=_dictionary(old, folder, number, *new),
            graphs=[*old.named_graphs().tolist(), *encode_static(names, scheme).tolist()],
            sources=[*old.sources, *({**as_recorded(source), "version": number} for source in add)],
            durable=durable,
            origin=origin,
            number=number,
            files=files,
        )
        return made, changes, failures

    return without_collisions(old.scheme, written)


def _read(
    sources: Sequence[StaticSource], scope: int, scheme: IdScheme, failures: Failures, named: bool = False
) -> Iterator[EncodedQuads]:
    """The quads of files; blank nodes of different files are different. ``named``: the files must have none."""
    for number, source in enumerate(sources):
        for piece in pieces(source, scope + number, 1 << 62):
            for quads in read(piece, failures):
                if named and have_blank_nodes(quads.compacted().terms):
                    raise DataError(
                        f"{piece.name}: what is to be removed cannot have blank nodes: they are names within one file"
                    )
                if len(quads):
                    yield encode_quads(quads, scheme)


# ------------------------------------------------------------------ partitions
class _Changes:
    """The changes, by graph and predicate: sorted, distinct (s, o); rows to add may exist already, and rows to remove may not."""

    def __init__(self, old: Store, gone: Sequence[EncodedQuads], come: Sequence[EncodedQuads]) -> None:
        self.old = old
        self.gone = {
            key: rows for key, rows in _by_key(gone).items() if key[0] != old.quoted
        }  # other triple terms may contain them as well
        self.come = _by_key(come)
        self.keys = sorted({*old.entries, *self.come})
        self.added = self.removed = 0

    def write(self, key: Key, folder: Path) -> PartitionEntry | None:
        """The partition in the new version: linked if it does not change, else written; None if no row is left."""
        entry = self.old.entries.get(key)
        before = self.old.partition(*key) if entry is not None else Relation.build({"s": _NONE[0], "o": _NONE[1]})
        gone, come = self.gone.get(key, _NONE), self.come.get(key, _NONE)
        gone = _take(gone, _among(before, gone) & ~_in(gone, come))
        come = _take(come, ~_among(before, come))
        if entry is not None and not len(gone[0]) and not len(come[0]):
            link(self.old.data / entry.folder, folder / entry.folder)
            return entry
        if key[0] != self.old.quoted:
            self.added += len(come[0])
            self.removed += len(gone[0])
        if before.rows + len(come[0]) == len(gone[0]):
            return None
        place = PartitionEntry(*key, 0, 0, "").folder
        writer = PartitionWriter(folder / place)
        for s, o in _merged(before, gone, come):
            writer.append(s, o)
        checksum = writer.close()
        return PartitionEntry(*key, writer.rows, array_bytes(writer.folder), checksum)


def _by_key(quads: Sequence[EncodedQuads]) -> dict[Key, Rows]:
    empty = np.empty(0, np.int64)
    columns = (np.concatenate([empty, *(getattr(part, name) for part in quads)]) for name in "spog")
    return {(graph, predicate): (s, o) for graph, predicate, s, o in by_partition(*columns)}


def _take(rows: Rows, which: NDArray[np.bool_]) -> Rows:
    return rows[0][which], rows[1][which]


def _among(relation: Relation, rows: Rows) -> NDArray[np.bool_]:
    """Which rows a partition has: its index on subjects leads to their objects."""
    asked, found = relation.index(("s",)).lookup(rows[0])
    hits = np.zeros(len(rows[0]), np.bool_)
    hits[asked[relation.columns["o"][found] == rows[1][asked]]] = True
    return hits


def _in(rows: Rows, others: Rows) -> NDArray[np.bool_]:
    """Which rows are among others, both distinct."""
    s, o = (np.concatenate(pair) for pair in zip(rows, others))
    order = sorted_order((s, o))
    firsts = run_starts((s[order], o[order]))
    twice = np.zeros(len(s), np.bool_)
    sizes = np.diff(np.append(firsts, len(s)))
    twice[order] = np.repeat(sizes > 1, sizes)
    return twice[: len(rows[0])]


def _merged(before: Relation, gone: Rows, come: Rows) -> Iterator[Rows]:
    """The rows of the new partition in their order, in pieces that hold all rows of a subject."""
    s, o = before.columns["s"], before.columns["o"]
    start = done = taken = 0
    while start < len(s) or done < len(come[0]):
        end = min(start + MERGED, len(s))
        if end < len(s):
            end = int(np.searchsorted(s, s[end - 1], "right"))
        upto = int(np.searchsorted(come[0], s[end - 1], "right")) if end < len(s) else len(come[0])
        until = int(np.searchsorted(gone[0], s[end - 1], "right")) if end else 0
        piece = s[start:end], o[start:end]
        coming, going = (come[0][done:upto], come[1][done:upto]), (gone[0][taken:until], gone[1][taken:until])
        if len(going[0]):
            piece = _take(piece, ~_in(piece, going))
        if len(coming[0]):
            both = tuple(np.concatenate(pair) for pair in zip(piece, coming))
            order = sorted_order(both)
            piece = both[0][order], both[1][order]
        yield piece
        start, done, taken = end, upto, until


# ------------------------------------------------------------------ terms
def _new_terms(
    old: Store, scheme: IdScheme, gone: Sequence[EncodedQuads], come: Sequence[EncodedQuads], names: pa.StringArray
) -> tuple[Ids, pa.StringArray]:
    """The terms that the old version does not have, in the order of ids. CollisionError if a term has the id of another one.

    That includes terms of triples to remove: the removal would hit other triples.
    """
    removed = [(quads.term_ids, quads.term_texts) for quads in gone]
    added = [(encode_static(names, scheme), names), *((quads.term_ids, quads.term_texts) for quads in come)]
    losers: list[str] = []
    left: dict[bool, list[tuple[Ids, pa.StringArray]]] = {True: [], False: []}
    for of_added, parts in ((False, removed), (True, added)):
        for ids, texts in parts:
            known, other = old.compare(ids, texts)
            losers += chosen(texts, other)
            left[of_added].append((ids[~known], texts.filter(pa.array(~known))))
    if losers:  # before new terms are compared with each other: terms of the store keep their ids
        raise CollisionError(losers)
    _distinct([*left[True], *left[False]])
    return _distinct(left[True])


def _distinct(parts: Sequence[tuple[Ids, pa.StringArray]]) -> tuple[Ids, pa.StringArray]:
    every = [(np.empty(0, np.int64), pa.array([], pa.string())), *parts]
    return distinct_terms(np.concatenate([ids for ids, _ in every]), pa.concat_arrays([texts for _, texts in every]))


def _dictionary(old: Store, folder: Path, number: int, ids: Ids, texts: pa.StringArray) -> list[PartEntry]:
    """The parts of the new version's dictionary: those of the old one, and a layer of new terms, with which layers of like size are
    merged.
    """
    layers: dict[int, list[PartEntry]] = {}
    for part in old.dictionary.parts:
        layers.setdefault(part.entry.layer, []).append(part.entry)
    above = len(layers)
    sizes = [sum(entry.terms for entry in layers[layer]) for layer in range(1, above)]
    if above and (some := runs_to_merge(sizes, arriving=len(ids))) is not None:
        above = 1 + some.start  # layer 0 is that of the load, which stays
        taken = [entry for layer in sorted(layers) if layer >= above for entry in layers.pop(layer)]
        parts = Dictionary(old.data / DICTIONARY, taken).parts
        ids = np.concatenate([ids, *(part.ids for part in parts)])
        texts = pa.concat_arrays([texts, *(cast("pa.StringArray", part.texts.cast(pa.string())) for part in parts)])
    kept = [entry for some in layers.values() for entry in some]
    for file in (file for entry in kept for file in entry.files):
        for name in (file, *([file + BLOCKS] if (old.data / DICTIONARY / (file + BLOCKS)).exists() else [])):
            link(old.data / DICTIONARY / name, folder / DICTIONARY / name)
    made = write_part(folder / DICTIONARY, f"v{number}", ids, texts)
    return [*kept, replace(made, layer=above)] if made is not None else kept


# ------------------------------------------------------------------ files
def link(source: Path, target: Path) -> None:
    """Links a file, or the files of a folder; copies them if the file system has no links. Files of a store never change."""
    if source.is_dir():
        target.mkdir(parents=True)
        for file in source.iterdir():
            disk.link(file, target / file.name)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    disk.link(source, target)
