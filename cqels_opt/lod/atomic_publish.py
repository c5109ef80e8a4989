"""Where a load or an update writes, so that at any moment, whatever is killed, there is the old store or the new one.

The target is a folder. A load writes to ``loading-<id>`` in it, moves what it made to ``data-<id>``, and then replaces the header
``store.json``, which names that folder: one rename, and the store is another one. What a killed load leaves is removed by the
next one: each load holds a lock on ``<id>.lock`` while it lives, and what nobody holds or reads and no header names goes. Loads to
one target at the same time have folders of their own, and the last one to finish stays.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

from cqels_opt.errors import StoreError
from cqels_opt.lod.dictionary import PartEntry
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, read_header, write_header
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.snapshots import LOCK, READERS, UPDATES, exclusive_lock, reader_lease
from cqels_opt.lod.store import DEFAULT_GRAPH, PartitionEntry, Store
from cqels_opt.lod.triple_terms import TERMS_GRAPH
from cqels_opt.rdf.ids import PUBLIC, IdScheme, encode_one
from cqels_opt.rdf.static import StaticSource, graph_term
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import text_digest

_OURS: Final = re.compile(r"(?:loading-|data-)([0-9a-f]{32})|([0-9a-f]{32})\.lock")
_OF_READERS: Final = (READERS, LOCK, UPDATES)
_UNKNOWN: Final = "?"


@dataclass(frozen=True, slots=True)
class LoadPlace:
    """The folders of one load: ``folder`` to write in, and ``data``, where what it made will be."""

    target: Path
    identity: str

    @property
    def folder(self) -> Path:
        """For whatever the load writes; it goes with the load."""
        return self.target / f"loading-{self.identity}"

    @property
    def data(self) -> Path:
        """The data of the store."""
        return self.target / f"data-{self.identity}"


@contextmanager
def load_place(target: Path) -> Iterator[LoadPlace]:
    """Folders for a load; afterwards only a store that :func:`finish` has let appear is left of it."""
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
            target.rmdir()  # where nothing else is in it


def check_target(target: Path) -> None:
    """Raise StoreError unless a store may be written there: a new path, an empty folder, an old store, or what a killed load left."""
    if target.exists() and not target.is_dir():
        raise StoreError(f"{target} is a file: name a folder for the store")
    if (
        target.is_dir()
        and not (target / HEADER).is_file()
        and not all(file.name in _OF_READERS or _OURS.fullmatch(file.name) for file in target.iterdir())
    ):
        raise StoreError(f"{target} is a folder with other files in it: name a new folder for the store")


def clear(target: Path) -> None:
    """Remove what no living load holds, nobody reads and the header does not name."""
    with _readers(target) as read:
        _clear(target, read)


def scheme_for(target: Path) -> IdScheme:
    """The ids of a store that is loaded there: a new secret key; that of the store which it replaces, if that one has such a key.

    So the same data loaded again are the same store to a checkpoint over it.
    """
    with suppress(StoreError):
        header = read_header(target / HEADER, FORMAT, VERSION)
        if (key := IdScheme.from_header(header).key) != PUBLIC.key:
            return IdScheme(key)
    return IdScheme.new()


@contextmanager
def _readers(target: Path) -> Iterator[set[str]]:
    """The versions that are read; nobody begins to read another one meanwhile. Without a store there are none."""
    if not (target / HEADER).exists():
        yield set()
        return
    with exclusive_lock(target):
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


def taken_lock(lock: IO[Any]) -> bool:
    """Whether the lock of a file could be taken; it is held as long as the file is open."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(place: LoadPlace, read: Collection[str]) -> None:
    """Remove what is at a place whose lock is held, but not the data that the header names or somebody reads."""
    disk.delete_folder(place.folder)
    named = _named(place.target)
    if _UNKNOWN not in named and place.data.name not in named and place.data.name not in read:
        disk.delete_folder(place.data)
    disk.delete(_lock_file(place))


def _lock_file(place: LoadPlace) -> Path:
    return place.target / f"{place.identity}.lock"


def _named(target: Path) -> set[str]:
    """The folders that the header names: its data and the version before. Unknown where it cannot be read."""
    if not (target / HEADER).exists():
        return set()
    try:
        header = read_header(target / HEADER, FORMAT, VERSION)
    except StoreError:
        return {_UNKNOWN}
    return {str(header[key]) for key in ("data", "before") if header.get(key)}


@dataclass(frozen=True, slots=True)
class Origin:
    """Of which version an update makes the next one: number, lineage, name of its folder, and how many files were read so far."""

    number: int
    lineage: str
    data: str
    files: int


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
) -> Store:
    """Make a store of the partitions and the dictionary that lie in ``folder``, let it appear at its target, and open it.

    What is written is flushed to the disk before it appears, unless the store need not outlive a crash (``durable=False``). An old store
    is replaced in one step. With an ``origin`` this is its next version, and the origin itself stays until the next one but one.
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
    # what the content is, whatever files it came from
    content["fingerprint"] = text_digest(repr(content))
    content["number"] = 1 if origin is None else origin.number + 1
    # two loads of the same files are two lineages: what updates add to one of them the other does not know
    content["lineage"] = f"{content['fingerprint']}.{place.identity}" if origin is None else origin.lineage
    content["sources"] = read = list(sources)
    content["files"] = len(read) + (0 if origin is None else origin.files)
    folder.mkdir(exist_ok=True)
    write_header(folder / HEADER, content)  # each version can be opened by itself
    disk.rename(folder, place.data)
    write_header(place.folder / HEADER, {**content, "data": place.data.name, "before": "" if origin is None else origin.data})
    if durable:
        # one call for all files: a vertical partition has eight, and an fsync each would take longer than the load
        disk.sync_file_system(place.target)
    check_target(place.target)
    disk.rename(place.folder / HEADER, place.target / HEADER)
    if durable:
        disk.sync(place.target)
    clear(place.target)
    return open_store(place.target)
