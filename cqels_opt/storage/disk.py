"""The only calls through which the engine changes and reads files of checkpoints and sinks.

Callers use the module (``disk.rename(…)``), so fault injection can replace one call and reach every file (``tests/faults``).
A static store is written into a new folder that one rename publishes (:mod:`cqels_opt.lod.atomic_publish`); locks are not content.

A file is durable once :func:`flush` or :func:`sync` returned for it, and its name once :func:`sync` returned for its folder.
:func:`sync_file_system` makes everything durable that was written to a file system before: one call for the files of a batch costs less
than one call per file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, Protocol

import pyarrow as pa

from cqels_opt.storage.file_errors import naming

_SYNCFS: Final = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
_PIECE: Final = 1 << 20
_CANNOT_COPY: Final = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)  # not between, or not on, these file systems


_syncing: Final = Lock()
_written: Final[dict[int, Path]] = {}  # file systems that this process has written to: a folder in each


class Replica(Protocol):
    """A folder that is a copy of a place elsewhere."""

    def fetch(self, path: Path) -> bool:
        """Fetches a file that is missing in the folder; False if the other place does not have it either."""

    def wrote(self, path: Path) -> None:
        """This process has written a file of the folder."""

    def gone(self, path: Path) -> None:
        """This process has deleted a file of the folder, or given it another name."""

    def send(self) -> None:
        """Sends what this process has written, if that is for this process to do."""


_replicas: Final[dict[str, Replica]] = {}  # by folder; most processes have none


def add_replica(folder: Path, replica: Replica) -> None:
    """From now on files that are missing in a folder are fetched when they are read."""
    _replicas[f"{folder}{os.sep}"] = replica


def _replica_of(path: Path | str) -> Replica | None:
    return next((replica for folder, replica in _replicas.items() if str(path).startswith(folder)), None)


def present(path: Path) -> Path:
    """The path, after the file was fetched if it was missing."""
    if _replicas and not path.exists():
        fetched(path)
    return path


def fetched(path: Path | str) -> bool:
    """Fetches a missing file if its folder is a copy of a place that has the file; returns whether it has."""
    replica = _replica_of(path)
    return replica is not None and replica.fetch(Path(path))


def create(path: Path) -> BinaryIO:
    """Opens a file for writing, empty."""
    return _noted(path, path.open("wb"))


def append(path: Path) -> BinaryIO:
    """Opens a file for writing at its end."""
    return _noted(path, path.open("ab"))


def _noted(path: Path, file: BinaryIO) -> BinaryIO:
    _written[os.fstat(file.fileno()).st_dev] = path.parent
    _wrote(path)
    return file


def _wrote(path: Path) -> None:
    if _replicas and (replica := _replica_of(path)) is not None:
        replica.wrote(path)


def _gone(path: Path) -> None:
    if _replicas and (replica := _replica_of(path)) is not None:
        replica.gone(path)


def modify(path: Path) -> BinaryIO:
    """Opens a file that exists for reading and writing."""
    return path.open("r+b")


def overwritten(path: Path) -> BinaryIO:
    """Opens a file, new or not, to write over what it has: one short write, which a killed process has done or not."""
    return _noted(path, os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), "wb"))


def opened(path: Path) -> BinaryIO:
    """Opens a file for reading."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        if not fetched(path):
            raise
        return path.open("rb")


def copy(source: BinaryIO, target: BinaryIO, start: int, size: int) -> int:
    """Copies at most ``size`` bytes from a position of one open file to the position of another; returns how many (0: end of file).

    The kernel copies if it can: the bytes do not enter this process.
    """
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source.fileno(), target.fileno(), size, start)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
    source.seek(start)
    piece = source.read(min(size, _PIECE))
    target.write(piece)
    target.flush()
    return len(piece)


def flush(file: BinaryIO) -> None:
    """Makes the content of an open file durable."""
    file.flush()
    os.fsync(file.fileno())


def flush_for(file: BinaryIO, folder: Path) -> None:
    """Makes the content of an open file durable, unless it is on the file system of a folder: :func:`publish` there makes it durable."""
    file.flush()
    if os.fstat(file.fileno()).st_dev != folder.stat().st_dev:
        flush(file)


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


@cache
def machine() -> str:
    """Names this machine since it was started."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode()}"


def sync_written(synced: str | None) -> None:
    """Makes durable what this process has written, unless another process on the machine ``synced`` does that."""
    for replica in _replicas.values():
        replica.send()
    with _syncing:  # what a thread has written may be synchronised by another one, for which it waits
        folders = [*_written.values()]
        _written.clear()
        for folder in folders if synced != machine() else ():
            try:
                sync_file_system(folder)
            except FileNotFoundError:  # it was deleted; other folders of its file system may have been written to
                os.sync()


def rename(source: Path, target: Path) -> None:
    """Renames a file or a folder; a file replaces an existing one."""
    source.replace(target)
    _gone(source)
    _wrote(target)


def delete(path: Path) -> None:
    """Deletes a file, if it exists."""
    path.unlink(missing_ok=True)
    _gone(path)


def make_folder(path: Path) -> None:
    """Makes a folder and its missing parents, durably."""
    missing = list(takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync(folder.parent)


def delete_folder(path: Path) -> None:
    """Deletes a folder with everything in it, if it exists."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path)


def link(source: Path, target: Path) -> None:
    """Gives a file another name, or copies it if the file systems differ or have no links."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def truncate(path: Path, length: int) -> None:
    """Cuts a file to a length in bytes, durably."""
    with path.open("r+b") as file:
        file.truncate(length)
        flush(file)


def cut_back(path: Path, length: int) -> int:
    """Cuts a file back to a length in bytes, and creates it if it is missing; returns its previous length."""
    new = not path.exists()
    with naming(path), append(path) as file:
        found = file.tell()
    if new:
        sync(path.parent)
    if found > length:
        truncate(path, length)
    return found


def read(path: Path) -> bytes:
    """The content of a file."""
    return path.read_bytes()


def mapped(path: Path) -> pa.Buffer:
    """The content of a file, mapped into memory."""
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a small file so that after a crash it is complete, or unchanged."""
    _replace(path, content, flush)
    sync(path.parent)


def publish(path: Path, content: bytes) -> None:
    """Writes a small file as :func:`write_atomically` does, after everything written to its file system before is durable.

    That takes two waits for the disk, for any number of files: for their content, and for the name of this file.
    """
    _replace(path, content, lambda file: sync_file_system(path.parent))
    sync(path.parent)


def _replace(path: Path, content: bytes, settle: Callable[[BinaryIO], None]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with naming(path), create(temporary) as file:
            file.write(content)
            file.flush()
            settle(file)
        rename(temporary, path)
    except BaseException:
        delete(temporary)
        raise
