"""Atomic publication: at any moment, whatever process is killed, a target folder has the old store or the new one.

A load writes to ``loading-<id>`` in the target, moves the result to ``data-<id>``, and then replaces the header ``store.json``,
which names that folder: one rename switches the store. Each load holds a lock on ``<id>.lock`` while it runs. The next load removes
the remains of killed loads: data without a lock, a reader or a header that names them. Concurrent loads to one target use separate
folders; the last one to finish wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

from cqels_opt.errors import StoreError
from cqels_opt.lod.dictionary import PartEntry
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, read_header, write_header
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.snapshots import LOCK, READERS, UPDATES, reader_lease
from cqels_opt.lod.store import DEFAULT_GRAPH, PartitionEntry, Store
from cqels_opt.lod.triple_terms import TERMS_GRAPH
from cqels_opt.rdf.ids import PUBLIC, IdScheme, encode_one
from cqels_opt.rdf.static import StaticSource, graph_term
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import text_digest
from cqels_opt.storage.locks import exclusive_lock, taken_lock

_OURS: Final = re.compile(r"(?:loading-|data-)([0-9a-f]{32})|([0-9a-f]{32})\.lock")
_OF_READERS: Final = (READERS, LOCK, UPDATES)
_UNKNOWN: Final = "?"


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """The folders of one load: ``folder`` for its temporary files, and ``data`` for its result."""

    target: Path
    identity: str

    @property
    def folder(self) -> Path:
        """The temporary files of the load; deleted at its end."""
        return self.target / f"loading-{self.identity}"

    @property
    def data(self) -> Path:
        """The data of the store."""
        return self.target / f"data-{self.identity}"


@contextmanager
def load_place(target: Path) -> Iterator[LoadPlace]:
    """Folders for a load. At the end only a store that :func:`finish` has published remains."""
    check_target(target)
    place, lock = _claim(target)
    try:
        clear(target)
        place.folder.mkdir()
        yield place
    finally:
        with _readers(target) as read:
            _remove(place, read)
        lock.close()
        with suppress(OSError):
            target.rmdir()  # if it is empty


def check_target(target: Path) -> None:
    """Raise StoreError unless a store may be written there: a new path, an empty folder, an old store, or the remains of a killed
    load.
    """
    if target.exists() and not target.is_dir():
        raise StoreError(f"{target} is a file: name a folder for the store")
    if (
        target.is_dir()
        and not (target / HEADER).is_file()
        and not all(file.name in _OF_READERS or _OURS.fullmatch(file.name) for file in target.iterdir())
    ):
        raise StoreError(f"{target} is a folder with other files in it: name a new folder for the store")


def clear(target: Path) -> None:
    """Remove data that have no running load, no reader and no header that names them."""
    with _readers(target) as read:
        _clear(target, read)


def scheme_for(target: Path) -> IdScheme:
    """The id scheme of a new store: the key of the store that it replaces, if that key is secret, else a new one.

    A checkpoint then continues over the same data after they are loaded again.
    """
    return following_scheme(lambda: IdScheme.from_header(read_header(target / HEADER, FORMAT, VERSION)))


def following_scheme(replaced: Callable[[], IdScheme]) -> IdScheme:
    """The id scheme of a store that takes the place of one with the scheme ``replaced``, which raises StoreError if there is none."""
    with suppress(StoreError):
        if (key := replaced().key) != PUBLIC.key:
            return IdScheme(key)
    return IdScheme.new()


@contextmanager
def _readers(target: Path) -> Iterator[set[str]]:
    """The versions that have readers.

    No process can start to read another one until the block ends. Without a store there are none.
    """
    if not (target / HEADER).exists():
        yield set()
        return
    with exclusive_lock(target / LOCK):
        yield reader_lease(target)


def _clear(target: Path, read: set[str]) -> None:
    names = (_OURS.fullmatch(file.name) for file in target.iterdir())
    for identity in {found[1] or found[2] for found in names if found is not None}:
        place = LoadPlace(target, identity)
        with _lock_file(place).open("ab") as lock:
            if taken_lock(lock):
                _remove(place, read)


def _claim(target: Path) -> tuple[LoadPlace, IO[bytes]]:
    """A new place, and its lock, which is held as long as the file is open."""
    while True:
        place = LoadPlace(target, uuid4().hex)
        with suppress(FileNotFoundError):  # another load has just taken the empty folder away
            target.mkdir(parents=True, exist_ok=True)
            lock = _lock_file(place).open("xb")
            if taken_lock(lock) and _lock_file(place).exists():
                return place, lock
            lock.close()


def _remove(place: LoadPlace, read: Collection[str]) -> None:
    """Remove the files of a load whose lock is held, except data that the header names or a run reads."""
    disk.delete_folder(place.folder)
    named = _named(place.target)
    if _UNKNOWN not in named and place.data.name not in named and place.data.name not in read:
        disk.delete_folder(place.data)
    disk.delete(_lock_file(place))


def _lock_file(place: LoadPlace) -> Path:
    return place.target / f"{place.identity}.lock"


def _named(target: Path) -> set[str]:
    """The folders that the header names: its data and the version before. Unknown if the header cannot be read."""
    if not (target / HEADER).exists():
        return set()
    try:
        header = read_header(target / HEADER, FORMAT, VERSION)
    except StoreError:
        return {_UNKNOWN}
    return {str(header[key]) for key in ("data", "before") if header.get(key)}


@dataclass(frozen=True, slots=True)
class Origin:
    """The version from which an update starts: its lineage, and the name of its folder."""

    lineage: str
    data: str


def as_recorded(source: StaticSource) -> dict[str, Any]:
    """A source as the store's header records it, enough to see later whether the file has changed."""
    graph_term(source)
    status = source.path.stat()
    return {
        "path": str(source.path.absolute()),
        "graph": source.graph,
        "bytes": status.st_size,
        "modified_ns": status.st_mtime_ns,
    }


def finish(
    folder: Path,
    place: LoadPlace,
    *,
    scheme: IdScheme,
    partitions: Iterable[PartitionEntry],
    parts: Iterable[PartEntry],
    graphs: Iterable[int],
    sources: Iterable[dict[str, Any]],
    durable: bool = True,
    origin: Origin | None = None,
    number: int = 1,
    files: int = 0,
) -> Store:
    """Make a store of the partitions and the dictionary in ``folder``, publish it at its target, and open it.

    The files are flushed to the disk before they are published, unless the store need not survive a crash (``durable=False``). One
    step replaces an old store. With an ``origin`` the result is its next version, and the origin is kept until the version after
    that. ``number`` is that of the version, and ``files`` have been read for its triples before those of the ``sources``.
    """
    rows = sorted(partitions, key=lambda entry: (entry.graph, entry.predicate))
    quoted = encode_one(TERMS_GRAPH, scheme)
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        **scheme.as_header(),
        "triples": sum(entry.triples for entry in rows if entry.graph != quoted),
        "graphs": sorted({DEFAULT_GRAPH, *graphs, *(entry.graph for entry in rows)} - {quoted}),
        "partitions": [list(entry) for entry in rows],
        "dictionary": [asdict(part) for part in sorted(parts, key=lambda part: (part.layer, part.first))],
    }
    # depends on the content only, not on the source files
    content["fingerprint"] = text_digest(repr(content))
    content["number"] = number
    # two loads of the same files are two lineages: updates of one of them are unknown to the other
    content["lineage"] = f"{content['fingerprint']}.{place.identity}" if origin is None else origin.lineage
    content["sources"] = read = list(sources)
    content["files"] = len(read) + files
    folder.mkdir(exist_ok=True)
    write_header(folder / HEADER, content)  # each version can be opened by itself
    disk.rename(folder, place.data)
    write_header(place.folder / HEADER, {**content, "data": place.data.name, "before": "" if origin is None else origin.data})
    if durable:
        # one call for all files: a vertical partition has eight, and an fsync each would take longer than the load
        disk.sync_file_system(place.target)
    check_target(place.target)
    # an update that has begun would publish the next version of the old data over these, or lose files that are cleared
    replaces = origin is None and (place.target / HEADER).exists()
    with exclusive_lock(place.target / UPDATES) if replaces else nullcontext():
        disk.rename(place.folder / HEADER, place.target / HEADER)
        if durable:
            disk.sync(place.target)
    clear(place.target)
    return open_store(place.target)
