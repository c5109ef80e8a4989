"""The only calls through which the engine changes and reads files of checkpoints, stores and sinks.

Callers use the module (``disk.rename(…)``), so fault injection can replace one call and reach every file (``tests/faults``).

A file is durable once :func:`flush` or :func:`sync` returned for it, and its name once :func:`sync` returned for its folder.
:func:`sync_file_system` makes everything durable that was written to a file system before: one call for the files of a batch costs less
than one call per file.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

_SYNCFS: Final = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def create(path: Path) -> BinaryIO:
    """Opens a file for writing, empty."""
    return path.open("wb")


def append(path: Path) -> BinaryIO:
    """Opens a file for writing at its end."""
    return path.open("ab")


def flush(file: BinaryIO) -> None:
    """Makes the content of an open file durable."""
    file.flush()
    os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Makes a file, or the names in a folder, durable."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_file_system(folder: Path) -> None:
    """Makes everything durable that was written to the file system of a folder."""
    if _SYNCFS is None:
        os.sync()
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        if _SYNCFS(number) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(number)


def rename(source: Path, target: Path) -> None:
    """Moves a file or a folder; a file takes the place of one that has the target's name."""
    source.replace(target)


def delete(path: Path) -> None:
    """Deletes a file; nothing happens where there is none."""
    path.unlink(missing_ok=True)


def truncate(path: Path, length: int) -> None:
    """Cuts a file to a length in bytes, durably."""
    with path.open("r+b") as file:
        file.truncate(length)
        flush(file)


def read(path: Path) -> bytes:
    """The content of a file."""
    return path.read_bytes()


def mapped(path: Path) -> pa.Buffer:
    """The content of a file, mapped into memory."""
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a small file so that after a crash it is there whole, or as it was before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with create(temporary) as file:
            file.write(content)
            flush(file)
        rename(temporary, path)
    except BaseException:
        delete(temporary)
        raise
    sync(path.parent)
