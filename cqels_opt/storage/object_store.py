"""Objects below a URI, through fsspec. Each ends with its time of modification and a digest of its name, time and content, which every
read verifies."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cqels_opt.errors import CheckpointError, CqelsOptError, FileError, InputError
from cqels_opt.storage import disk
from cqels_opt.storage.checksum import Hasher

_END: Final = struct.Struct("<q16s")
"""Time of the last modification in nanoseconds, and the digest."""
_PIECE: Final = 8 << 20
_AT_ONCE: Final = 32 << 20
"""Bytes up to which a file is sent in one request."""


class ObjectStore:
    """The objects below a URI, which messages call ``name``."""

    def __init__(self, uri: str, name: str) -> None:
        self.name = name
        parts = urlsplit(uri)
        if "@" in parts.netloc or parts.query:
            raise InputError(
                f"{self.name}: credentials, region and endpoint of a checkpoint come from the environment (AWS_ACCESS_KEY_ID, …), not from "
                "its URI"
            )
        try:
            import fsspec

            self._system, root = fsspec.url_to_fs(uri, use_listings_cache=False)
        except ImportError as error:
            raise InputError(
                f"{self.name}: {error}: a URI needs fsspec and its driver, such as s3fs: pip install 'cqels-opt[object-store]'"
            ) from error
        except (OSError, TypeError, ValueError) as error:
            raise InputError(f"{self.name}: fsspec cannot open it: {first_sentence(error)}") from error
        if not _creates(self._system):
            raise InputError(f"{self.name}: {no_conditional_writes()}")
        self._root = str(root).rstrip("/")

    def names(self, folder: str) -> list[str]:
        """The names of all objects in a folder, in order."""
        with self._explained(folder):
            try:
                found = self._system.find(f"{self._root}/{folder}")
            except FileNotFoundError:
                found = []
        start = len(self._root.lstrip("/")) + 1
        return sorted(str(path).lstrip("/")[start:] for path in found)

    def create(self, name: str, content: bytes) -> bool:
        """Writes an object that does not exist yet, in one step; False if there is one."""
        with self._explained(name):
            try:
                self._system.pipe_file(f"{self._root}/{name}", content, mode="create")
            except FileExistsError:
                return False
            except FileNotFoundError as error:
                raise FileError(f"{self.name}: {first_sentence(error)}") from error
        return True

    def read(self, name: str) -> bytes:
        """What :meth:`create` wrote."""
        with self._explained(name):
            content = bytes(self._system.cat_file(f"{self._root}/{name}"))
        return content

    def upload(self, name: str, path: Path) -> None:
        """Writes the content of a file as an object."""
        modified = path.stat().st_mtime_ns
        hasher = _hasher(name, modified)
        target = f"{self._root}/{name}"
        with disk.opened(path) as source:
            first = source.read(_AT_ONCE + 1)
            hasher.update(first)
            if len(first) <= _AT_ONCE:
                with self._explained(name):
                    self._system.pipe_file(target, first + _END.pack(modified, hasher.digest))
            else:
                with self._explained(name), self._system.open(target, "wb") as sink:
                    sink.write(first)
                    while piece := source.read(_PIECE):
                        hasher.update(piece)
                        sink.write(piece)
                    sink.write(_END.pack(modified, hasher.digest))

    def download(self, name: str, path: Path) -> bool:
        """Writes the content of an object as a file, whole or not at all; False if there is no object.

        CheckpointError if the content is not the one that was uploaded.
        """
        part = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            try:
                with (
                    self._explained(name),
                    self._system.open(f"{self._root}/{name}", "rb", block_size=_PIECE) as source,
                    disk.create(part) as target,
                ):
                    shutil.copyfileobj(source, target, _PIECE)
            except FileNotFoundError:
                return False
            self._check(name, part)
            disk.rename(part, path)
        finally:
            disk.delete(part)
        return True

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects, those that are gone included."""
        paths = [f"{self._root}/{name}" for name in names]
        if paths:
            with self._explained(""):
                try:
                    self._system.rm(paths)
                except FileNotFoundError:
                    for path in paths:
                        if self._system.exists(path):
                            self._system.rm_file(path)

    def _check(self, name: str, part: Path) -> None:
        """Verifies a download, and gives the file its length and time."""
        length = part.stat().st_size - _END.size
        with part.open("r+b") as file:
            if length >= 0:
                file.seek(length)
                modified, digest = _END.unpack(file.read())
                file.seek(0)
                hasher, left = _hasher(name, modified), length
                while left and (piece := file.read(min(left, _PIECE))):
                    hasher.update(piece)
                    left -= len(piece)
            if length < 0 or hasher.digest != digest:
                raise CheckpointError(
                    f"{self.name}/{name} does not have its checksum: the checkpoint is damaged; use another place"
                )
            file.truncate(length)
        os.utime(part, ns=(modified, modified))

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        """Turns the error of a file system into one sentence that names the object; one about a missing or existing object stays."""
        try:
            yield
        except (CqelsOptError, FileNotFoundError):
            raise
        except Exception as error:
            raise FileError(f"{self.name}/{name}: {reason(error)}") from error


_REASONS: Final = (
    (r"NO_SUCH_BUCKET|NoSuchBucket", "there is no such bucket"),
    (
        r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE|InvalidAccessKeyId|HTTP response code: 403|[Cc]redentials|request signature",
        "access is denied; check the credentials, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    (r"NETWORK_CONNECTION|[Cc]ouldn.?t connect|[Tt]imed? ?out|resolve host", "the server does not answer"),
)


def reason(error: Exception) -> str:
    """What a driver of an object store reports, after the cause if it is a common one."""
    known = next((reason for pattern, reason in _REASONS if re.search(pattern, str(error))), None)
    return f"{known} ({first_sentence(error)})" if known else first_sentence(error)


def first_sentence(error: Exception) -> str:
    """The beginning of a message, or the name of its type if it is empty."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]


def no_conditional_writes() -> str:
    """The sentence about a file system that cannot create an object only if there is none."""
    return "this file system has no conditional writes, which a checkpoint needs: use another one, or a folder that all machines mount"


def _creates(system: Any) -> bool:
    """Whether a file system has its own ``mode="create"``: that of fsspec's base classes looks first and then writes."""
    return any("pipe_file" in vars(kind) or "_pipe_file" in vars(kind) for kind in _own_classes(type(system)))


def _own_classes(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__ not in ("fsspec.spec", "fsspec.asyn")]


def _hasher(name: str, modified: int) -> Any:
    hasher = Hasher()
    hasher.update(f"{name}\n{modified}\n".encode())
    return hasher
