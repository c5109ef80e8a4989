"""Versions of a store in a folder: which exist, which is the newest, and which have readers.

Each version is a folder ``data-<id>/`` with a ``store.json`` of its own, and can be opened while it exists. The ``store.json`` of
the store names the newest version; one rename replaces it. An update creates the next number of the same *lineage*: ids and texts
of terms do not change, so a run that holds terms can switch to it. A load starts a new lineage.

A version is deleted when it is neither the newest nor the one before, and no run reads it. Readers are listed in ``readers/``: a
run names its checkpoint there and the versions that its commit records may need. The entry is deleted after the checkpoint is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cqels_opt.errors import StoreError
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, read_header
from cqels_opt.lod.locations import is_uri
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import text_digest
from cqels_opt.storage.locks import exclusive_lock

READERS: Final = "readers"
LOCK: Final = "readers.lock"
UPDATES: Final = "updates.lock"


@dataclass(frozen=True, slots=True)
class StoreVersion:
    """A version of a store, and a place where this version can be opened after the store has changed."""

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
    """The store of a version; None if the version is not in a store's folder."""
    if is_uri(place):
        return None
    parent = Path(place).parent
    return parent if Path(place).name.startswith("data-") and (parent / HEADER).is_file() else None


# ------------------------------------------------------------------ readers
def hold(reader: Path, places: Iterable[Path | str]) -> None:
    """Registers the versions that a run needs, in place of those that it needed before. The folder of its state names the run.

    Raises StoreError if a version was deleted, OSError if the store is not writable.
    """
    paths = [Path(place) for place in places]
    for store in {store for path in paths if (store := store_of(path)) is not None}:
        mine = sorted(path.name for path in paths if path.parent == store)
        with exclusive_lock(store / LOCK):
            if gone := [name for name in mine if not (store / name / HEADER).is_file()]:
                raise StoreError(f"{store / gone[0]}: this version of the store is gone; start again with another checkpoint")
            note = store / READERS / f"{text_digest(str(reader))[:16]}.json"
            text = json.dumps({"reader": str(reader), "versions": mine})
            if not note.exists() or note.read_text(encoding="utf-8") != text:
                note.parent.mkdir(exist_ok=True)
                disk.write_atomically(note, text.encode())


def reader_lease(store: Path) -> set[str]:
    """The versions that runs read. Deletes entries of readers whose state was deleted; the caller holds the store's lock."""
    found: set[str] = set()
    for note in (store / READERS).glob("*.json"):
        try:
            record = json.loads(note.read_text(encoding="utf-8"))
            reader, versions = Path(record["reader"]), [str(name) for name in record["versions"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{note} is damaged ({error}): remove it if no run reads {store}") from error
        if reader.exists():
            found |= set(versions)
        else:
            disk.delete(note)
    return found
