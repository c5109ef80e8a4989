"""Checksums (XXH3) of the files of checkpoints, stores and sinks, and what has been verified by this process.

A file is hashed in blocks of 1 MiB; its digest is the hash of its size and of the hashes of its blocks. A file of up to :data:`WHOLE`
bytes is verified as a whole when it is first mapped. Of a larger one the hashes of the blocks are kept, and a block is verified when it
is first touched (:class:`Blocks`). What has been verified is remembered by path, inode, time of modification and size.

Three forms:

- *sealed* files (the state of a checkpoint): a header of 64 bytes with the digest of what follows, and of the file's own name, so that two
  files that were swapped are found. Large ones end with the hashes of their blocks.
- files with an entry (size and digest) in a header that describes them: the arrays of a static store.
- files whose name holds their digest: answers and chunks that other programs read, and that can have no header.
"""

from __future__ import annotations

import os
import re
import struct
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from cqels_opt.errors import CheckpointError, CqelsOptError, StoreError
from cqels_opt.storage import disk

BLOCK = 1 << 20
HEADER: Final = 64
BLOCKS: Final = ".blocks"
"""The suffix of the file that keeps the hashes of the blocks of a large file of a store."""

WHOLE = 64 << 20
"""Files up to this size are verified as a whole when they are first mapped, larger ones by the block."""

_REMEMBERED: Final = 1 << 16
_PREFIX: Final = "xxh3:"
_MAGIC: Final = b"cqelsopt"
_FORMAT: Final = 1
_LAYOUT: Final = struct.Struct("<8sIIQQ16s16x")  # magic, format, block hashes at the end (0, 1), length, hash of the name, digest
_NAMED: Final = re.compile(r"\.([0-9a-f]{32})\.[a-z]+$")


# ------------------------------------------------------------------ digests
class Hasher:
    """The digest of content that comes in pieces."""

    def __init__(self) -> None:
        self.size = 0
        self._block = xxhash.xxh3_64()
        self._blocks = bytearray()

    def update(self, content: Any) -> None:
        """Adds content: bytes or any buffer."""
        view = memoryview(content).cast("B")
        if self.size % BLOCK + len(view) < BLOCK:  # most pieces are small
            self._block.update(view)
            self.size += len(view)
            return
        at = 0
        while at < len(view):
            piece = view[at : at + BLOCK - self.size % BLOCK]
            self._block.update(piece)
            self.size += len(piece)
            at += len(piece)
            if not self.size % BLOCK:
                self._blocks += self._block.digest()
                self._block.reset()

    @property
    def blocks(self) -> bytes:
        """The hashes of the blocks so far, 8 bytes each."""
        return bytes(self._blocks) + (self._block.digest() if self.size % BLOCK else b"")

    @property
    def digest(self) -> bytes:
        """The digest of the content so far."""
        return _of_blocks(self.blocks, self.size)

    @property
    def text(self) -> str:
        """The digest as a text."""
        return self.digest.hex()


def _of_blocks(blocks: bytes, size: int) -> bytes:
    return bytes(xxhash.xxh3_128_digest(size.to_bytes(8, "little") + blocks))


def digest(content: Any) -> str:
    """The digest of some content, as a text."""
    view = memoryview(content).cast("B")
    if len(view) < BLOCK:
        return _of_blocks(xxhash.xxh3_64_digest(view) if view else b"", len(view)).hex()
    hasher = Hasher()
    hasher.update(view)
    return hasher.text


def file_digest(path: Path) -> str:
    """The digest of a file, as a text."""
    return digest(_mapped(path).data)


def _mapped(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file, mapped."""
    buffer = disk.mapped(path) if path.stat().st_size else b""
    return np.frombuffer(memoryview(buffer), np.uint8)


# ------------------------------------------------------------------ what this process has verified
Identity = tuple[str, int, int, int]


class _Remembered:
    """What has been verified, the latest :data:`_REMEMBERED` files; of large ones, which of their blocks."""

    def __init__(self) -> None:
        self._known: OrderedDict[Identity, Blocks | None] = OrderedDict()

    def __contains__(self, key: Identity) -> bool:
        return key in self._known

    def blocks(self, key: Identity) -> Blocks | None:
        """Those of a large file."""
        return self._known.get(key)

    def add(self, key: Identity, blocks: Blocks | None = None) -> None:
        """Notes a file."""
        self._known[key] = blocks
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Everything is verified again when it is next mapped."""
        self._known.clear()


VERIFIED: Final = _Remembered()


def identity(path: Path) -> Identity:
    """What tells a file from another one that took its place."""
    found = path.stat()
    return str(path), found.st_ino, found.st_mtime_ns, found.st_size


class Blocks:
    """The blocks of a large file, of which some have been verified. ``start`` is where the content begins in the file."""

    def __init__(self, path: Path, content: NDArray[np.uint8], hashes: bytes, error: CqelsOptError) -> None:
        self.path, self._content, self._error = path, content, error
        self._hashes = [hashes[at : at + 8] for at in range(0, len(hashes), 8)]
        self._pending = np.ones(len(self._hashes), np.bool_)
        self.pending = len(self._hashes)

    def verify(self, places: NDArray[np.integer]) -> None:
        """Verifies the blocks in which these bytes lie."""
        if self.pending and len(places):
            touched = np.zeros(len(self._hashes), np.bool_)
            touched[places // BLOCK] = True
            self._verify(touched)

    def verify_span(self, start: int, stop: int) -> None:
        """Verifies the blocks from a byte to another one."""
        if self.pending and stop > start:
            touched = np.zeros(len(self._hashes), np.bool_)
            touched[start // BLOCK : (stop - 1) // BLOCK + 1] = True
            self._verify(touched)

    def verify_all(self) -> None:
        """Verifies what has not been verified yet."""
        self.verify_span(0, len(self._content))

    def _verify(self, touched: NDArray[np.bool_]) -> None:
        for block in np.flatnonzero(touched & self._pending).tolist():
            if xxhash.xxh3_64_digest(self._content[block * BLOCK : (block + 1) * BLOCK].data) != self._hashes[block]:
                raise self._error
            self._pending[block] = False
            self.pending -= 1


# ------------------------------------------------------------------ sealed files
class _Sealing:
    """A file of which everything that is written is hashed."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.hasher = file, Hasher()

    def write(self, content: Any) -> int:
        """Writes and hashes."""
        before = self.hasher.size
        self._file.write(content)
        self.hasher.update(content)
        return self.hasher.size - before

    def tell(self) -> int:
        """The place in what is sealed."""
        return self.hasher.size

    def flush(self) -> None:
        """The file is flushed when it is closed."""

    def writable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is not."""
        return False

    def seekable(self) -> bool:
        """It is not."""
        return False


@contextmanager
def sealing(path: Path) -> Iterator[Any]:
    """A file object whose content becomes a sealed file, whole or not at all, when the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with disk.create(temporary) as file:
            file.write(bytes(HEADER))
            made = _Sealing(file)
            yield made
            if large := made.hasher.size > WHOLE:
                file.write(made.hasher.blocks)
            file.seek(0)
            file.write(_header(path.name, made.hasher.size, made.hasher.digest, large))
        disk.rename(temporary, path)
    except BaseException:
        disk.delete(temporary)
        raise


def _header(name: str, length: int, digest: bytes, large: bool) -> bytes:
    return _LAYOUT.pack(_MAGIC, _FORMAT, large, length, xxhash.xxh3_64_intdigest(name.encode()), digest)


def seal(path: Path, content: bytes) -> None:
    """Writes a sealed file."""
    with sealing(path) as file:
        file.write(content)


def unsealed(path: Path) -> bytes:
    """The content of a sealed file, verified; CheckpointError where it is damaged."""
    content, blocks = opened(path)
    if blocks is not None:
        blocks.verify_all()
    return content.to_pybytes()


def opened(path: Path) -> tuple[pa.Buffer, Blocks | None]:
    """The content of a sealed file, mapped, and the blocks of a large one, which are still to be verified."""
    try:
        key = identity(path)
        if not key[3]:
            raise _damaged(path, "it is empty")
        buffer = disk.mapped(path)
    except (OSError, pa.ArrowInvalid) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise _damaged(path, reason) from error
    if key in VERIFIED:
        length = int.from_bytes(memoryview(buffer)[16:24], "little")
        return buffer.slice(HEADER, length), VERIFIED.blocks(key)
    length, hashes = _checked_header(path, buffer)
    content = buffer.slice(HEADER, length)
    blocks = None
    if length > WHOLE and hashes:
        blocks = Blocks(path, np.frombuffer(memoryview(content), np.uint8), hashes, _damaged(path))
    elif digest(content) != bytes(memoryview(buffer)[32:48]).hex():
        raise _damaged(path)
    VERIFIED.add(key, blocks)
    return content, blocks


def _checked_header(path: Path, buffer: pa.Buffer) -> tuple[int, bytes]:
    """The length of the content and the hashes of its blocks, where the file has them: all of the file but its content is verified."""
    if buffer.size < HEADER:
        raise _damaged(path, f"it has {buffer.size} bytes")
    start = bytes(memoryview(buffer)[:HEADER])
    magic, form, large, length, name, expected = _LAYOUT.unpack(start)
    if magic != _MAGIC or form != _FORMAT or start[48:] != bytes(16) or large not in (0, 1):
        raise _damaged(path, "its header is not that of a file of the state")
    if name != xxhash.xxh3_64_intdigest(path.name.encode()):
        raise _damaged(path, "it was written under another name")
    hashes = bytes(memoryview(buffer)[HEADER + length :])
    if len(hashes) != large * 8 * -(-length // BLOCK) or HEADER + length + len(hashes) != buffer.size:
        raise _damaged(path, f"it has {buffer.size} bytes")
    if large and _of_blocks(hashes, length) != expected:
        raise _damaged(path)
    return length, hashes


def _damaged(path: Path, reason: str = "its content does not have its checksum") -> CheckpointError:
    return CheckpointError(f"{path}: the checkpoint is damaged ({reason}); use another folder")


def copy(source: Path, target: Path) -> None:
    """Copies a sealed file to another name."""
    content, blocks = opened(source)
    if blocks is not None:
        blocks.verify_all()
    with sealing(target) as file:
        file.write(content)


def move(source: Path, target: Path) -> None:
    """Gives a sealed file another name."""
    copy(source, target)
    disk.delete(source)


# ------------------------------------------------------------------ files with an entry in a header
def entry(path: Path, blocks: Path | None = None) -> tuple[int, str]:
    """The size and digest of a file. The hashes of the blocks of a large one go to the file ``blocks``."""
    hasher = Hasher()
    hasher.update(_mapped(path).data)
    if blocks is not None and hasher.size > WHOLE:
        with disk.create(blocks) as file:
            file.write(hasher.blocks)
    return hasher.size, _PREFIX + hasher.text


def blocks_file(path: Path) -> Path:
    """Where the hashes of a large file's blocks lie."""
    return path.with_name(path.name + BLOCKS)


def has_checksum(entry: tuple[int, str]) -> bool:
    """Whether an entry is of this kind; earlier versions wrote others."""
    return str(entry[1]).startswith(_PREFIX)


def verified(path: Path, entry: tuple[int, str]) -> Blocks | None:
    """Verifies a file of a store, whose size has been compared; of a large one the blocks are still to be verified.

    StoreError where it is damaged.
    """
    key = identity(path)
    if key in VERIFIED:
        return VERIFIED.blocks(key)
    expected, content, blocks = entry[1].removeprefix(_PREFIX), _mapped(path), None
    hashes = _hashes_beside(path, entry[0], expected) if entry[0] > WHOLE else None
    if hashes is not None:
        blocks = Blocks(path, content, hashes, _not_as_written(path))
    elif digest(content.data) != expected:
        raise _not_as_written(path)
    VERIFIED.add(key, blocks)
    return blocks


def _hashes_beside(path: Path, size: int, expected: str) -> bytes | None:
    """The hashes of a file's blocks; None where there are none, or others: it is then verified as a whole."""
    try:
        hashes = disk.read(blocks_file(path))
    except OSError:
        return None
    right = len(hashes) == 8 * -(-size // BLOCK) and _of_blocks(hashes, size).hex() == expected
    return hashes if right else None


def _not_as_written(path: Path) -> StoreError:
    return StoreError(f"{path} does not have its checksum: the store is damaged, load it again")


# ------------------------------------------------------------------ files whose name holds their digest
def name_after_content(path: Path) -> Path:
    """Puts the digest of a file into its name, before the suffix; returns the new name."""
    named = path.with_name(f"{path.stem}.{file_digest(path)}{path.suffix}")
    disk.rename(path, named)
    return named


def verify_name(path: Path) -> Path:
    """Verifies that a file has the content that its name says; CheckpointError where it does not."""
    found = _NAMED.search(path.name)
    try:
        key = identity(path)
        if key in VERIFIED:
            return path
        if found is None or file_digest(path) != found[1]:
            raise _damaged(path)
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    VERIFIED.add(key)
    return path


def digest_in_name(path: Path) -> str:
    """The digest that a file's name holds; empty where it holds none."""
    found = _NAMED.search(path.name)
    return found[1] if found else ""


# ------------------------------------------------------------------ beginnings of files that grow
def beginning(path: Path, length: int) -> Hasher:
    """The digest of the first bytes of a file, to be continued with what is appended."""
    hasher = Hasher()
    with path.open("rb") as file:
        while hasher.size < length and (piece := file.read(min(BLOCK, length - hasher.size))):
            hasher.update(piece)
    return hasher


def committed(path: Path, length: int, digest: str) -> Hasher:
    """The digest of the committed beginning of a file; CheckpointError where it is not the one that was committed.

    Nothing need have been committed of a file without length.
    """
    hasher = beginning(path, length)
    if length and hasher.text != digest:
        raise CheckpointError(
            f"{path}: its first {length} bytes are not those that the checkpoint has committed; "
            "bring the file back, or use another checkpoint"
        )
    return hasher
