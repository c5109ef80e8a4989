"""Versions of a store in a folder: which are there, which one is the newest, and who still reads an older one?

Each version lies in a folder of its own, ``data-<id>/`` with its own ``store.json``, and can be opened there for as long as it exists. The
``store.json`` of the store names the newest, and is replaced by one rename. An update makes the next number of the same *lineage*: ids
and texts of terms stay what they are, so a run that holds some of them can go over to it. A load begins a lineage of its own.

A version goes when the store does not name it, when it is not the one before the newest, and when nobody reads it. Who does says so in
``readers/``: a run names its checkpoint there and the versions that its records may need. When the checkpoint is removed, so is that.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cqels_opt.errors import StoreError
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, read_header
from cqels_opt.lod.locations import is_uri
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import text_digest

READERS: Final = "readers"
LOCK: Final = "readers.lock"
UPDATES: Final = "updates.lock"


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """A version of a store, and the place where just this one is opened, whatever becomes of the store."""

    place: Path | str
    number: int
    lineage: str
    key: str
    fingerprint: str

    def followed_by(self, other: StoreVersion) -> bool:
        """Whether another version is a later one of the same lineage."""
        return other.number > self.number and (other.lineage, other.key) == (self.lineage, self.key)


def version_at(place: Path | str) -> StoreVersion:
    """The version at a place: of a store the newest, of the folder of a version this one. One in an object store is its only one."""
    if is_uri(place):
        return StoreVersion(place, 1, str(place), "", "")
    path = Path(place)
    header = read_header(path / HEADER, FORMAT, VERSION)
    key, lineage = IdScheme.from_header(header).key, str(header["lineage"])
    return StoreVersion(path / header.get("data", ""), int(header["number"]), lineage, key, str(header["fingerprint"]))


def content_of(lineage: str) -> str:
    """The fingerprint of the first version of a lineage."""
    return lineage.partition(".")[0]


def store_of(place: Path | str) -> Path | None:
    """The store that a version belongs to; None where it has no versions beside it."""
    if is_uri(place):
        return None
    parent = Path(place).parent
    return parent if Path(place).name.startswith("data-") and (parent / HEADER).is_file() else None


# ------------------------------------------------------------------ who reads what
def hold(reader: Path, places: Iterable[Path | str]) -> None:
    """Notes that a run, named by the folder of its state, needs these versions, and no others of their store any more.

    Raises StoreError where one of them is gone, OSError where the store cannot be written.
    """
    paths = [Path(place) for place in places]
    for store in {store for path in paths if (store := store_of(path)) is not None}:
        mine = sorted(path.name for path in paths if path.parent == store)
        with exclusive_lock(store):
            if gone := [name for name in mine if not (store / name / HEADER).is_file()]:
                raise StoreError(f"{store / gone[0]}: this version of the store is gone; start again with another checkpoint")
            note = store / READERS / f"{text_digest(str(reader))[:16]}.json"
            text = json.dumps({"reader": str(reader), "versions": mine})
            if not note.exists() or note.read_text(encoding="utf-8") != text:
                note.parent.mkdir(exist_ok=True)
                disk.write_atomically(note, text.encode())


def reader_lease(store: Path) -> set[str]:
    """The versions that somebody reads. Notes of readers whose state is gone are removed: the caller has locked the store."""
    found: set[str] = set()
    for note in (store / READERS).glob("*.json"):
        try:
            said = json.loads(note.read_text(encoding="utf-8"))
            reader, versions = Path(said["reader"]), [str(name) for name in said["versions"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{note} is damaged ({error}): remove it if no run reads {store}") from error
        if reader.exists():
            found |= set(versions)
        else:
            disk.delete(note)
    return found


@contextmanager
def exclusive_lock(store: Path, what: str = LOCK) -> Iterator[None]:
    """Alone with what says who reads the store, and with the removal of versions; or with the updates of a store."""
    file = os.open(store / what, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
