"""Arrays and headers on disk: written with their checksums, verified when they are mapped, and damage told apart from absence."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import StoreError
from cqels_opt.storage import checksum, disk
from cqels_opt.storage.verified_array import array_of

#: The header of a store.
FORMAT: Final = "cqels-opt store"
VERSION: Final = 4
HEADER: Final = "store.json"

#: Size in bytes and checksum of a file, as headers record them.
FileEntry: TypeAlias = "tuple[int, str]"


def write_array(folder: Path, name: str, array: NDArray[Any]) -> dict[str, FileEntry]:
    """Write one array; returns its entry for the header."""
    np.save(folder / name, array, allow_pickle=False)
    return {name: file_entry(folder / name)}


def file_entry(path: Path) -> FileEntry:
    """The size and checksum of a file that was written; of a large one the hashes of its blocks are put beside it."""
    return checksum.entry(path, checksum.blocks_file(path))


def text_checksum(text: str) -> str:
    """The checksum of a text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_sizes(folder: Path) -> dict[str, int]:
    """The sizes of the files in a folder, by name; nothing if there is no folder."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as files:
        return {file.name: file.stat().st_size for file in files if file.is_file()}


def check_size(path: Path, files: Mapping[str, FileEntry]) -> None:
    """Raise StoreError if a file is missing or has another size than its header says."""
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing: the store is damaged, load it again") from error
    if size != files[path.name][0]:
        raise StoreError(f"{path} has {size} bytes instead of {files[path.name][0]}: the store is damaged, load it again")


def map_array(path: Path, files: Mapping[str, FileEntry]) -> NDArray[Any]:
    """Memory-map an array whose size and checksum its header knows: verified, or if it is large verified as it is read.

    Of stores of earlier formats, whose checksums are others, only the sizes are compared here; ``store check`` compares the checksums.
    """
    check_size(path, files)
    blocks = checksum.verified(path, files[path.name]) if checksum.has_checksum(files[path.name]) else None
    if blocks is not None:
        blocks.verify_span(0, 1)
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is damaged ({error}): load the store again") from error
    return array_of(mapped.view(np.ndarray), blocks, mapped.offset)


def same_content(path: Path, recorded: FileEntry, blocks: Path | None = None) -> bool:
    """Whether all of a file is as a header records it, in this format or an earlier one. The hashes of its blocks may go to a file."""
    if checksum.has_checksum(recorded):
        return list(checksum.entry(path, blocks)) == list(recorded)
    return [path.stat().st_size, hashlib.blake2b(disk.read(path), digest_size=16).hexdigest()] == list(recorded)


def write_header(path: Path, header: Mapping[str, Any]) -> str:
    """Write a JSON header with its own checksum inside, and return that checksum."""
    checksum = text_checksum(json.dumps(header, sort_keys=True))
    path.write_text(json.dumps({**header, "checksum": checksum}, indent=1), encoding="utf-8")
    return checksum


def read_header(path: Path, file_format: str, version: int) -> dict[str, Any]:
    """Read a JSON header of this format, of this version or an older one; StoreError says what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(f"{path.parent} has no {path.name}: not a {file_format}") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    return parse_header(path, text, file_format, version)


def parse_header(path: Path | str, text: str, file_format: str, version: int) -> dict[str, Any]:
    """The header that a text holds; ``path`` is for what StoreError says is wrong."""
    try:
        header = json.loads(text)
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    if not isinstance(header, dict) or header.get("format") != file_format or not isinstance(header.get("version"), int):
        raise StoreError(f"{path} is not the header of a {file_format}")
    if header["version"] > version:
        raise StoreError(
            f"{path} has format version {header['version']}, this cqels-opt reads up to {version}: use a newer cqels-opt"
        )
    content = {key: value for key, value in header.items() if key != "checksum"}
    if header.get("checksum") != text_checksum(json.dumps(content, sort_keys=True)):
        raise StoreError(f"{path} is damaged: its checksum does not fit its content")
    return header
