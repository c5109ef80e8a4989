"""Arrays and headers of a store on disk: written with their checksums and verified when they are mapped.

A missing file and a damaged one are different errors.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from cqels_opt.errors import StoreError
from cqels_opt.storage import checksum, disk
from cqels_opt.storage.file_errors import naming
from cqels_opt.storage.verified_array import array_of

#: The header of a store.
FORMAT: Final = "cqels-opt store"
VERSION: Final = 5
HEADER: Final = "store.json"

LONGEST_HEADER = 1 << 12
"""The first bytes of a file of an array, more than its header has."""

#: Size in bytes and digest of a file, as headers record them.
FileEntry: TypeAlias = "tuple[int, str]"


def write_array(folder: Path, name: str, array: NDArray[Any]) -> dict[str, FileEntry]:
    """Write one array; returns its entry for the header."""
    with naming(folder / name), disk.create(folder / name) as file:
        np.save(file, array, allow_pickle=False)
    return {name: file_entry(folder / name)}


def file_entry(path: Path) -> FileEntry:
    """The size and digest of a file that was written; the hashes of the blocks of a large file are written next to it."""
    return checksum.entry(path, checksum.blocks_file(path))


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
    """Memory-map an array, verified by the entry in its header. A large array is verified as it is read."""
    check_size(path, files)
    blocks = checksum.verified(path, files[path.name])
    if blocks is not None:
        blocks.verify_span(0, 1)
    mapped, offset = load_mapped(path)
    return array_of(mapped, blocks, offset)


def load_mapped(path: Path) -> tuple[NDArray[Any], int]:
    """An array of a ``.npy`` file, mapped, and where its elements begin in the file, which does not stay open: a store has several files
    per partition, and a process may open a thousand. StoreError if it has no such array."""
    with naming(path):
        content = disk.mapped(path)
    beginning = io.BytesIO(memoryview(content)[:LONGEST_HEADER])
    try:
        version = npy.read_magic(beginning)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, in_columns, dtype = read(beginning)
        offset, size = beginning.tell(), math.prod(shape)
        if dtype.hasobject:
            raise ValueError("it has objects")
        flat = np.frombuffer(memoryview(content), dtype, size, offset) if size else np.empty(0, dtype)
        return flat.reshape(shape, order="F" if in_columns else "C"), offset
    except ValueError as error:
        raise StoreError(f"{path} is damaged ({error}): load the store again") from error


def same_content(path: Path, recorded: FileEntry, blocks: Path | None = None) -> bool:
    """Whether all of a file is as a header records it. The hashes of the blocks of a large file are written to ``blocks``."""
    return list(checksum.entry(path, blocks)) == list(recorded)


def write_header(path: Path, header: Mapping[str, Any]) -> str:
    """Write a JSON header that contains its own digest, and return that digest."""
    digest = checksum.text_digest(json.dumps(header, sort_keys=True))
    with naming(path), disk.create(path) as file:
        file.write(json.dumps({**header, "checksum": digest}, indent=1).encode())
    return digest


def read_header(path: Path, file_format: str, version: int) -> dict[str, Any]:
    """Read a JSON header of this format and version; StoreError says what is wrong."""
    try:
        text = disk.read(path).decode()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StoreError(f"{path.parent} has no {path.name}: not a {file_format}") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    return parse_header(path, text, file_format, version)


def parse_header(path: Path | str, text: str, file_format: str, version: int) -> dict[str, Any]:
    """The header in a text; ``path`` is for the message of a StoreError."""
    try:
        header = json.loads(text)
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}") from error
    if not isinstance(header, dict) or header.get("format") != file_format or not isinstance(header.get("version"), int):
        raise StoreError(f"{path} is not the header of a {file_format}")
    if header["version"] != version:
        otherwise = "use a newer cqels-opt" if header["version"] > version else "load the data again"
        raise StoreError(f"{path} has format version {header['version']}, this cqels-opt reads version {version}: {otherwise}")
    content = {key: value for key, value in header.items() if key != "checksum"}
    if header.get("checksum") != checksum.text_digest(json.dumps(content, sort_keys=True)):
        raise StoreError(f"{path} is damaged: its checksum does not fit its content")
    return header
