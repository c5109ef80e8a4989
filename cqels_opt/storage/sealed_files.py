"""Sealed files, the state of a checkpoint: a header of 64 bytes with the digest of the content and of the file's own name.

The name makes two files that were swapped detectable. A large file ends with the hashes of its blocks.

Where a run writes no commit record with each batch, most files are deleted before a record names them. :func:`hold` keeps the small files
of a folder in memory until a record does. Those of arrays stay arrays (:class:`Unwritten`): most never become bytes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from cqels_opt.storage import checksum, disk
from cqels_opt.storage.checksum import VERIFIED, BlockHashes, Blocks, HashedFile, Hasher, damaged, hash_of, hashes_of
from cqels_opt.storage.file_errors import naming
from cqels_opt.storage.shared_cache import cached

HEADER: Final = 64
_MAGIC: Final = b"cqelsopt"
_FORMAT: Final = 2
_LAYOUT: Final = struct.Struct("<8sIIQ16s16s8x")
"""Magic, format, whether the hashes of blocks are at the end (0, 1), bytes of the content, hash of the name, digest of the content."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Content that becomes bytes when it is written: the ``value`` that it has for readers in this process, about ``size`` bytes."""

    value: object
    size: int
    to_bytes: Callable[[], pa.Buffer]


@dataclass(frozen=True, slots=True)
class _Folder:
    """The files of a folder that are in memory, by name, each with a number; and those written since, with their inodes and times."""

    contents: dict[str, tuple[int, pa.Buffer | Unwritten]] = field(default_factory=dict)
    written: dict[str, tuple[int, tuple[int, int]]] = field(default_factory=dict)


_held: Final[dict[str, _Folder]] = {}
"""Readers of this process find the contents."""
_numbers: Final = count(1)
_kept: Final = [0]
"""The bytes that :func:`write` has kept in memory so far."""


def _folder_of(path: Path | str) -> tuple[_Folder | None, str]:
    """The folder of a file, if it holds files in memory, and the file's name. Most processes have no such folder."""
    if not _held:
        return None, ""
    folder, _, name = str(path).rpartition(os.sep)
    return _held.get(folder), name


def _in_memory(path: Path | str) -> tuple[int, pa.Buffer | Unwritten] | None:
    """The number and content of a file in memory."""
    folder, name = _folder_of(path)
    return None if folder is None else folder.contents.get(name)


def _bytes(content: bytes | pa.Buffer | Unwritten) -> bytes | pa.Buffer:
    return content.to_bytes() if isinstance(content, Unwritten) else content


def hold(folder: Path) -> None:
    """Keeps what :func:`write` writes into a folder in memory, until :func:`settle` or :func:`delete`; forgets what was there before."""
    _held[str(folder)] = _Folder()


def kept() -> int:
    """The bytes that this process has kept in memory so far, those that were written or deleted since included."""
    return _kept[0]


def settle(folder: Path, names: Container[str] | None = None) -> None:
    """Writes the files of a folder that are in memory; ``names``: those alone."""
    held = _held.get(str(folder), _Folder())
    for name in list(held.contents):  # threads add and delete files meanwhile
        if (names is None or name in names) and (found := held.contents.get(name)) is not None:
            _write(folder / name, _bytes(found[1]))
            held.written[name] = found[0], _inode_and_time(folder / name)
            if (last := held.contents.pop(name, None)) is found:  # from here on readers find the file
                continue
            held.written.pop(name, None)  # it was deleted or replaced meanwhile
            disk.delete(folder / name)
            if last is not None:
                held.contents[name] = last


def release(folder: Path) -> None:
    """The folder's files are written at once again; those in memory are forgotten."""
    _held.pop(str(folder), None)


def delete(path: Path) -> None:
    """Deletes a file, if it exists, on the disk or in memory."""
    folder, name = _folder_of(path)
    if folder is not None:
        folder.written.pop(name, None)
        if folder.contents.pop(name, None) is not None:
            return
    disk.delete(path)


def size(path: Path) -> int:
    """The bytes of a file, on the disk or in memory."""
    found = _in_memory(path)
    return _stat(path).st_size if found is None else HEADER + len(_bytes(found[1]))


def _stat(path: Path | str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116  (a text too: to make a Path takes longer than this call)
    except FileNotFoundError:
        if not disk.fetched(path):
            raise
        return os.stat(path)  # noqa: PTH116


def stamp(path: Path | str) -> tuple[int, int]:
    """Distinguishes a file from another one that took its place: its inode and the time of its last change; of one that is or was in
    memory, its number.

    OSError if it does not exist.
    """
    folder, name = _folder_of(path)
    if folder is None:
        return _inode_and_time(path)
    if (found := folder.contents.get(name)) is not None:
        return 0, found[0]
    now, (number, written) = _inode_and_time(path), folder.written.get(name, (0, None))
    return (0, number) if now == written else now


def _inode_and_time(path: Path | str) -> tuple[int, int]:
    about = _stat(path)
    return about.st_ino, about.st_mtime_ns


def value(path: Path) -> object:
    """The value of a file in memory that was written as :class:`Unwritten`; None of any other file."""
    found = _in_memory(path)
    return found[1].value if found is not None and isinstance(found[1], Unwritten) else None


@contextmanager
def sealing(path: Path) -> Iterator[Any]:
    """A file object whose content becomes a sealed file, whole or not at all, when the block ends."""
    with _renamed_into(path) as file:
        file.write(bytes(HEADER))
        content = HashedFile(file)
        yield content
        if content.hasher.size > checksum.WHOLE:
            file.write(content.hasher.blocks)
        file.seek(0)
        file.write(_header(path, content.hasher))


def write(path: Path, content: bytes | pa.Buffer | Unwritten) -> None:
    """Writes content that is in memory as a sealed file, in one call."""
    folder, name = _folder_of(path)
    if folder is None:
        _write(path, _bytes(content))
        return
    held = content if isinstance(content, Unwritten) else pa.py_buffer(content)
    folder.contents[name] = next(_numbers), held
    _kept[0] += held.size


def _write(path: Path, content: bytes | pa.Buffer) -> None:
    hasher = Hasher()
    hasher.update(content)
    blocks = hasher.blocks if hasher.size > checksum.WHOLE else b""
    with _renamed_into(path) as file:
        file.write(b"".join([_header(path, hasher), memoryview(content), blocks]))


@contextmanager
def _renamed_into(path: Path) -> Iterator[BinaryIO]:
    """A temporary file that becomes the file when the block ends, and is deleted if it fails. Makes the folder if it is missing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            opened = disk.create(temporary)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            opened = disk.create(temporary)
        with naming(path), opened as file:
            yield file
        disk.rename(temporary, path)
    except BaseException:
        disk.delete(temporary)
        raise


def _header(path: Path, hasher: Hasher) -> bytes:
    large = hasher.size > checksum.WHOLE
    return _LAYOUT.pack(_MAGIC, _FORMAT, large, hasher.size, hash_of(path.name.encode()), hasher.digest)


def opened(path: Path) -> tuple[pa.Buffer, Blocks | None]:
    """The content of a sealed file, mapped, and the blocks of a large one, which are not verified yet.

    CheckpointError if the file is missing or damaged.
    """
    if (found := _in_memory(path)) is not None:
        return pa.py_buffer(_bytes(found[1])), None
    try:
        key = checksum.identity(path)
        if not key[3]:
            raise damaged(path, "it is empty")
        buffer = disk.mapped(path)
    except (OSError, pa.ArrowInvalid) as error:
        if isinstance(error, FileNotFoundError) and disk.fetched(path):
            return opened(path)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise damaged(path, reason) from error
    known = cached(VERIFIED, key, lambda: _verified(path, buffer))
    content = buffer.slice(HEADER, int.from_bytes(memoryview(buffer)[16:24], "little"))
    return content, None if known is None else Blocks(np.frombuffer(memoryview(content), np.uint8), known, damaged(path))


def _verified(path: Path, buffer: pa.Buffer) -> BlockHashes | None:
    """The hashes of the blocks of a large file; a file without them is verified as a whole."""
    length, expected, hashes = _checked_header(path, buffer)
    if length > checksum.WHOLE and hashes:
        return BlockHashes(hashes)
    if checksum.digest(buffer.slice(HEADER, length)) != expected.hex():
        raise damaged(path)
    return None


def _checked_header(path: Path, buffer: pa.Buffer) -> tuple[int, bytes, bytes]:
    """The length and digest of the content, and the hashes of its blocks if the file has them; all but the content is verified."""
    if buffer.size < HEADER:
        raise damaged(path, f"it has {buffer.size} bytes")
    start = bytes(memoryview(buffer)[:HEADER])
    magic, form, large, length, name, expected = _LAYOUT.unpack(start)
    if magic != _MAGIC or form != _FORMAT or start[56:] != bytes(8) or large not in (0, 1):
        raise damaged(path, "its header is not that of a file of the state")
    if name != hash_of(path.name.encode()):
        raise damaged(path, "it was written under another name")
    hashes = bytes(memoryview(buffer)[HEADER + length :])
    if len(hashes) != large * hashes_of(length) or HEADER + length + len(hashes) != buffer.size:
        raise damaged(path, f"it has {buffer.size} bytes")
    if large and checksum.digest_of_blocks(hashes, length) != expected:
        raise damaged(path)
    return length, expected, hashes


def opened_whole(path: Path) -> pa.Buffer:
    """The content of a sealed file, mapped and verified; CheckpointError if the file is missing or damaged."""
    content, blocks = opened(path)
    if blocks is not None:
        blocks.verify_all()
    return content


def copy(source: Path, target: Path) -> None:
    """Copies a sealed file to another name."""
    content = opened_whole(source)
    with sealing(target) as file:
        file.write(content)


def move(source: Path, target: Path) -> None:
    """Gives a sealed file another name."""
    copy(source, target)
    delete(source)
