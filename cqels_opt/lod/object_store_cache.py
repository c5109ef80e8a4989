"""Stores in object stores: uploads, and a cache of their files on the local disk, from where they are mapped.

All filesystems of pyarrow work (``s3://bucket/prefix``, ``gs://…``). A remote store is ``store.json``, written last and in one
step, and its files below ``data-<fingerprint>/``. A process fetches whole files when it first uses them, into a local folder named
after the store's fingerprint; the processes of a machine share that folder.

A file is downloaded under a temporary name, verified with the checksum in the store's headers, and then renamed, all under a lock:
an interrupted download is never read, and two processes do not fetch one file at once.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs

from cqels_opt.errors import StoreError
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, FileEntry, parse_header, same_content
from cqels_opt.lod.locations import cache_folder, is_uri, shown
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import blocks_file
from cqels_opt.storage.locks import exclusive_lock
from cqels_opt.storage.object_store import first_sentence, reason

DATA: Final = "data-"

_BLOCK: Final = 8 << 20
_THREADS: Final = 4
_DAY: Final = 24 * 3600 * 10**9
#: Filesystems without folders.
_FLAT: Final = ("s3", "gcs")


def pinned(place: str) -> str:
    """The URI of a store with the fingerprint of its current content: opening it gives this store, or an error."""
    source = RemoteStore.at(place)
    return f"{source.uri}#{source.fingerprint}"


def header_file(place: str) -> Path:
    """The header of a store as a file of this machine."""
    return RemoteStore.at(place).header_file() if is_uri(place) else _header_in(place)


@lru_cache(64)
def _header_in(folder: str) -> Path:
    return Path(folder) / HEADER


def filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """The filesystem of a URI and the path in it; StoreError if there is none."""
    try:
        system, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(f"{shown(uri)}: {first_sentence(error)}") from error
    return system, path.rstrip("/")


@contextmanager
def _explained(uri: str, name: str = "") -> Iterator[None]:
    """Turns the error of a filesystem into one sentence that names the place."""
    try:
        yield
    except FileNotFoundError as error:
        if not _has_bucket(uri):
            raise StoreError(f"{shown(uri)}: there is no such bucket") from error
        missing = "there is no store" if name == HEADER else f"{name} is missing: the store is damaged or was replaced"
        raise StoreError(f"{shown(uri)}: {missing}") from error
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{shown(uri)}: {_reason(error)}") from error


def _has_bucket(uri: str) -> bool:
    """Whether the bucket exists, as far as the server reports; filesystems with folders have no buckets."""
    system, path = filesystem(uri)
    try:
        found: bool = system.type_name not in _FLAT or system.get_file_info(path.partition("/")[0]).type != fs.FileType.NotFound
    except OSError:
        return True
    return found


def _reason(error: Exception) -> str:
    if re.search("[Cc]hecksums? mismatch", str(error)):
        return f"what came is not what was written: the store is damaged, load it again ({first_sentence(error)})"
    return reason(error)


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """A store in an object store, and the folder of this machine into which its files are fetched."""

    uri: str
    fingerprint: str

    @classmethod
    def at(cls, place: str) -> RemoteStore:
        """The store at a URI. A fingerprint after ``#`` must be that of the store; a header with it is not fetched again."""
        uri, _, fingerprint = place.partition("#")
        if fingerprint and (cache_folder() / fingerprint / HEADER).is_file():
            return cls(uri, fingerprint)
        content = _read(uri, HEADER)
        header = parse_header(f"{shown(uri)}/{HEADER}", content.decode("utf-8", "replace"), FORMAT, VERSION)
        found = cls(uri, str(header["fingerprint"]))
        if fingerprint and fingerprint != found.fingerprint:
            raise StoreError(f"{shown(uri)}: the store was replaced by another one while it was in use: start again")
        with found._locked(HEADER):
            disk.write_atomically(found.header_file(), content)
        return found

    @property
    def folder(self) -> Path:
        """The local folder of its files."""
        return cache_folder() / self.fingerprint

    def header_file(self) -> Path:
        """The store's header on this machine."""
        return self.folder / HEADER

    def fetch(self, files: Mapping[str, FileEntry]) -> None:
        """Fetch files that are not here yet; StoreError if one is missing or differs from the one that was loaded."""
        missing = {name: entry for name, entry in files.items() if not self._is_here(name, entry)}
        if not missing:
            return
        with ThreadPoolExecutor(min(_THREADS, len(missing))) as pool:
            list(pool.map(lambda item: self._fetch(item[0], item[1]), missing.items()))

    def fetch_header(self, name: str, file_format: str, version: int, checksum: str) -> None:
        """Bring a header to this machine, which must have this checksum."""
        place = self.folder / name
        if place.is_file():
            return

        def check(part: Path) -> None:
            text = part.read_text("utf-8", "replace")
            if parse_header(f"{shown(self.uri)}/{name}", text, file_format, version)["checksum"] != checksum:
                raise StoreError(f"{shown(self.uri)}: {name} is not the one that was loaded: the store is damaged, load it again")

        self._download(name, check, place.is_file)

    def _is_here(self, name: str, entry: FileEntry) -> bool:
        place = self.folder / name
        return place.is_file() and place.stat().st_size == entry[0]

    def _fetch(self, name: str, entry: FileEntry) -> None:
        def check(part: Path) -> None:
            if not same_content(part, entry, blocks_file(self.folder / name)):
                raise StoreError(f"{shown(self.uri)}: {name} does not have its checksum: the store is damaged, load it again")

        self._download(name, check, lambda: self._is_here(name, entry))

    def _download(self, name: str, check: Callable[[Path], None], is_here: Callable[[], bool]) -> None:
        place = self.folder / name
        with self._locked(name):
            if is_here():
                return
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_name(f"{place.name}.part")
            system, path = filesystem(self.uri)
            with (
                _explained(self.uri, name),
                system.open_input_stream(f"{path}/{DATA}{self.fingerprint}/{name}") as source,
                disk.create(part) as target,
            ):
                shutil.copyfileobj(source, target, _BLOCK)
            check(part)
            disk.rename(part, place)

    def _locked(self, name: str) -> AbstractContextManager[None]:
        """Holds the lock of a name on this machine."""
        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        return exclusive_lock(locks / name.replace("/", "-"))


def _read(uri: str, name: str) -> bytes:
    """A small file of a store."""
    system, path = filesystem(uri)
    with _explained(uri, name), system.open_input_stream(f"{path}/{name}") as file:
        content: bytes = file.read()
        return content


# ------------------------------------------------------------------ upload
def check_remote_target(uri: str) -> None:
    """Raise StoreError unless a store may be written there: a place with nothing in it, or with an old store."""
    system, path = filesystem(uri)
    if "/" not in path:
        raise StoreError(f"{shown(uri)}: name a place in the bucket for the store, as in {shown(uri)}/store")
    if not _has_bucket(uri):
        raise StoreError(f"{shown(uri)}: there is no such bucket")
    with _explained(uri):
        names = [info.base_name for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True))]
    if HEADER not in names and not all(name.startswith(DATA) for name in names):
        raise StoreError(f"{shown(uri)}: other files lie there: name a new place for the store")


def upload(folder: Path, names: Sequence[str], uri: str, fingerprint: str) -> None:
    """Upload files of a store's data from ``folder``."""
    system, path = filesystem(uri)
    for name in names:
        with _explained(uri):
            place = f"{path}/{DATA}{fingerprint}/{name}"
            _make_folder(system, place)
            with disk.opened(folder / name) as source, system.open_output_stream(place) as target:
                shutil.copyfileobj(source, target, _BLOCK)


def publish(header: Path, uri: str, fingerprint: str) -> None:
    """Publish a store whose data have been uploaded, and remove the store that it replaces.

    Data that no header names belong to a running or a killed load; they are removed after one day.
    """
    system, path = filesystem(uri)
    with _explained(uri):
        before = _current(uri)
        _make_folder(system, f"{path}/{HEADER}")
        with system.open_output_stream(f"{path}/{HEADER}") as file:
            file.write(disk.read(header))
        for folder in system.get_file_info(fs.FileSelector(path)):
            named = folder.base_name.removeprefix(DATA)
            if folder.base_name == named or named == fingerprint or folder.type != fs.FileType.Directory:
                continue
            files = system.get_file_info(fs.FileSelector(folder.path, recursive=True))
            latest = max((file.mtime_ns or 0 for file in files), default=0)
            if named == before or latest < time.time_ns() - _DAY:
                _remove(system, folder.path)


def _current(uri: str) -> str | None:
    """The fingerprint of the store at a place, if it can be read."""
    try:
        return str(parse_header(HEADER, _read(uri, HEADER).decode("utf-8", "replace"), FORMAT, VERSION)["fingerprint"])
    except (StoreError, KeyError):
        return None


def _remove(system: fs.FileSystem, folder: str) -> None:
    """Remove a folder: first files, then the deepest folders, for some servers refuse to remove one that holds something."""
    found = system.get_file_info(fs.FileSelector(folder, recursive=True))
    for info in found:
        if info.type == fs.FileType.File:
            system.delete_file(info.path)
    inner = [info.path for info in found if info.type == fs.FileType.Directory]
    for path in [*sorted(inner, key=lambda path: -path.count("/")), folder]:
        system.delete_dir(path)


def _make_folder(system: fs.FileSystem, place: str) -> None:
    if system.type_name not in _FLAT:
        system.create_dir(place.rpartition("/")[0], recursive=True)
