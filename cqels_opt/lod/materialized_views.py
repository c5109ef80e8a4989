"""Materialized views of static sub-patterns (the report's sub-results) on disk, shared by registrations over the same store.

A sub-result is a saved :class:`Relation`, projected to the variables that the query uses elsewhere, with multiplicities and the
indexes that the plans probe. Its folder is named after the store's fingerprint, a canonical description of the sub-pattern (triple
patterns, filters, projected variables) and the indexes. So a later registration with the same sub-pattern opens it, and over a
changed store it is computed again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cqels_opt.errors import StoreError
from cqels_opt.lod.files import read_header, write_header
from cqels_opt.lod.relation import Relation
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import text_digest

FORMAT: Final = "cqels-opt sub-result"
VERSION: Final = 2
HEADER: Final = "subresult.json"
RELATION: Final = "relation"

On = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubResult:
    """A sub-result on disk: its description and the mapped relation."""

    folder: Path
    fingerprint: str
    description: str
    relation: Relation


def subresult_folder(root: Path, fingerprint: str, description: str, indexes: Iterable[On]) -> Path:
    """The folder of a sub-result under ``root``, which may not exist yet."""
    on = sorted(set(indexes))
    return root / text_digest(repr((VERSION, fingerprint, description, on)))


def save(root: Path, fingerprint: str, description: str, relation: Relation, indexes: Sequence[On]) -> SubResult:
    """Write a sub-result, whole or not at all, and map it. If another process was faster, its files are taken."""
    folder = subresult_folder(root, fingerprint, description, indexes)
    disk.make_folder(root)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=root))
    try:
        checksum = relation.save(temporary / RELATION, sorted(set(indexes)))
        header = {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": fingerprint,
            "description": description,
            "indexes": [list(on) for on in sorted(set(indexes))],
            "relation": checksum,
        }
        write_header(temporary / HEADER, header)
        try:
            disk.rename(temporary, folder)
        except OSError:
            if find(root, fingerprint, description, indexes) is None:
                disk.delete_folder(folder)  # it is damaged
                disk.rename(temporary, folder)
    finally:
        disk.delete_folder(temporary)
    return open_subresult(folder)


def open_subresult(folder: Path) -> SubResult:
    """Map a sub-result; StoreError if it is absent, damaged or of another version."""
    header = read_header(folder / HEADER, FORMAT, VERSION)
    relation = Relation.open(folder / RELATION)
    if relation.checksum != header["relation"]:
        raise StoreError(f"{folder / RELATION} is not what {HEADER} describes: remove {folder}")
    return SubResult(folder, header["fingerprint"], header["description"], relation)


def find(root: Path, fingerprint: str, description: str, indexes: Sequence[On] = ()) -> SubResult | None:
    """The sub-result, if an earlier registration left it intact; None if it has to be computed."""
    folder = subresult_folder(root, fingerprint, description, indexes)
    if not folder.is_dir():
        return None
    try:
        return open_subresult(folder)
    except StoreError:
        return None


def find_or_compute(
    root: Path, fingerprint: str, description: str, indexes: Sequence[On], compute: Callable[[], Relation]
) -> tuple[SubResult, bool]:
    """The sub-result and whether it was there already; otherwise it is computed and saved."""
    found = find(root, fingerprint, description, indexes)
    if found is not None:
        return found, True
    return save(root, fingerprint, description, compute(), indexes), False
