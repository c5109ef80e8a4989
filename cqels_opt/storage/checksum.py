"""Checksums of the files of checkpoints, stores and sinks, and which of them this process has verified.

One hash is used: XXH3 with 128 bits. It finds accidental damage and names content; it is no protection against an attacker. Content is
hashed in blocks of 1 MiB, and its digest is the hash of its size and of the hashes of its blocks. A file of up to :data:`WHOLE` bytes is
verified when it is first mapped. Of a larger file the hashes of the blocks are stored, and a block is verified when it is first read
(:class:`Blocks`). Verified files are remembered by path, inode, modification time and size.

Files hold their digest in one of three places:

- in a header of their own (:mod:`cqels_opt.storage.sealed_files`): the state of a checkpoint;
- in a header that describes several files, as an entry of size and digest: the arrays of a static store;
- in their name: answers and replay chunks, which other programs read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from cqels_opt.errors import CheckpointError, CqelsOptError, StoreError
from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import naming
from cqels_opt.storage.shared_cache import SharedCache, cached

BLOCK = 1 << 20
SIZE: Final = 16
"""Bytes of a hash."""

BLOCKS: Final = ".blocks"
"""The suffix of the file with the hashes of the blocks of a large file of a store."""

WHOLE = 64 << 20
"""Files up to this size are verified as a whole when they are first mapped, larger ones by the block."""

_NAMED: Final = re.compile(r"\.([0-9a-f]{32})\.[a-z]+$")


# ------------------------------------------------------------------ digests
class Hasher:
    """The digest of content that arrives in pieces."""

    def __init__(self) -> None:
        self.size = 0
        self._block = xxhash.xxh3_128()
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
        """The hashes of the blocks so far."""
        return bytes(self._blocks) + (self._block.digest() if self.size % BLOCK else b"")

    @property
    def digest(self) -> bytes:
        """The digest of the content so far."""
        return digest_of_blocks(self.blocks, self.size)

    @property
    def text(self) -> str:
        """The digest in hexadecimal digits."""
        return self.digest.hex()


class HashedFile:
    """A file that is written from its beginning to its end, and hashed meanwhile: its content is not read again."""

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
        """The position in the content."""
        return self.hasher.size

    def flush(self) -> None:
        """The file is flushed when it is closed."""

    def writable(self) -> bool:
        """Always."""
        return True

    def readable(self) -> bool:
        """Never."""
        return False

    def seekable(self) -> bool:
        """Never."""
        return False


def hash_of(content: Any) -> bytes:
    """The hash of a block, or of other content that is short."""
    return bytes(xxhash.xxh3_128_digest(content))


def digest_of_blocks(blocks: bytes, size: int) -> bytes:
    """The digest of content of a size, from the hashes of its blocks."""
    return hash_of(size.to_bytes(8, "little") + blocks)


def hashes_of(size: int) -> int:
    """Bytes of the hashes of the blocks of content of a size."""
    return SIZE * -(-size // BLOCK)


def digest(content: Any) -> str:
    """The digest of content, in hexadecimal digits."""
    hasher = Hasher()
    hasher.update(content)
    return hasher.text


def text_digest(text: str) -> str:
    """The digest of a text: it names a query, a reader or a header's content."""
    return digest(text.encode())


def file_digest(path: Path) -> str:
    """The digest of a file."""
    return digest(_mapped(path).data)


def _mapped(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file, mapped."""
    buffer = disk.mapped(path) if path.stat().st_size else b""
    return np.frombuffer(memoryview(buffer), np.uint8)


# ------------------------------------------------------------------ what this process has verified
Identity = tuple[str, int, int, int]


def identity(path: Path) -> Identity:
    """Distinguishes a file from another one that took its place."""
    found = path.stat()
    return str(path), found.st_ino, found.st_mtime_ns, found.st_size


class BlockHashes:
    """The hashes of the blocks of a large file, and which blocks have not been verified yet.

    They do not refer to the content: a mapped file takes its space on disk after it was deleted.
    """

    def __init__(self, hashes: bytes) -> None:
        self.hashes = [hashes[at : at + SIZE] for at in range(0, len(hashes), SIZE)]
        self.pending = np.ones(len(self.hashes), np.bool_)


class Blocks:
    """The blocks of a large file that is mapped, some of which have been verified. Threads share them, and may verify a block twice."""

    def __init__(self, content: NDArray[np.uint8], known: BlockHashes, error: CqelsOptError) -> None:
        self._content, self._error = content, error
        self._hashes, self._pending = known.hashes, known.pending
        self.pending = int(self._pending.sum())

    def verify(self, places: NDArray[np.integer]) -> None:
        """Verifies the blocks that contain these bytes."""
        if self.pending and len(places):
            touched = np.zeros(len(self._hashes), np.bool_)
            touched[places // BLOCK] = True
            self._verify(touched)

    def verify_span(self, start: int, stop: int) -> None:
        """Verifies the blocks from one byte to another."""
        if self.pending and stop > start:
            touched = np.zeros(len(self._hashes), np.bool_)
            touched[start // BLOCK : (stop - 1) // BLOCK + 1] = True
            self._verify(touched)

    def verify_all(self) -> None:
        """Verifies the blocks that have not been verified yet."""
        self.verify_span(0, len(self._content))

    def _verify(self, touched: NDArray[np.bool_]) -> None:
        for block in np.flatnonzero(touched & self._pending).tolist():
            if hash_of(self._content[block * BLOCK : (block + 1) * BLOCK].data) != self._hashes[block]:
                raise self._error
            self._pending[block] = False
        self.pending = int(self._pending.sum())  # counted again: another thread may have verified the same blocks


VERIFIED: Final[SharedCache[Identity, BlockHashes | None]] = SharedCache(1 << 16)
"""The files that this process has verified; of a large file which blocks."""


# ------------------------------------------------------------------ files with an entry in a header
def entry(path: Path, blocks: Path | None) -> tuple[int, str]:
    """The size and digest of a file. The hashes of the blocks of a large file are written to the file ``blocks``."""
    hasher = Hasher()
    hasher.update(_mapped(path).data)
    if blocks is not None and hasher.size > WHOLE:
        with naming(blocks), disk.create(blocks) as file:
            file.write(hasher.blocks)
    return hasher.size, hasher.text


def blocks_file(path: Path) -> Path:
    """The file with the hashes of a large file's blocks."""
    return path.with_name(path.name + BLOCKS)


def verified(path: Path, entry: tuple[int, str]) -> Blocks | None:
    """Verifies a file of a store that has the size of its entry; of a large file it returns the blocks, which are not verified yet.

    StoreError if the file is damaged.
    """
    known = cached(VERIFIED, identity(path), lambda: _verified(path, entry))
    return None if known is None else Blocks(_mapped(path), known, _damaged_store(path))


def _verified(path: Path, entry: tuple[int, str]) -> BlockHashes | None:
    """The hashes of the blocks of a large file; a file without them is verified as a whole."""
    hashes = _hashes_beside(path, entry) if entry[0] > WHOLE else None
    if hashes is None and digest(_mapped(path).data) != entry[1]:
        raise _damaged_store(path)
    return None if hashes is None else BlockHashes(hashes)


def _hashes_beside(path: Path, entry: tuple[int, str]) -> bytes | None:
    """The hashes of a file's blocks; None if they are missing or wrong."""
    try:
        hashes = disk.read(blocks_file(path))
    except OSError:
        return None
    right = len(hashes) == hashes_of(entry[0]) and digest_of_blocks(hashes, entry[0]).hex() == entry[1]
    return hashes if right else None


def _damaged_store(path: Path) -> StoreError:
    return StoreError(f"{path} does not have its checksum: the store is damaged, load it again")


def damaged(path: Path, reason: str = "its content does not have its checksum") -> CheckpointError:
    """The error for a damaged file of a checkpoint."""
    return CheckpointError(f"{path}: the checkpoint is damaged ({reason}); use another folder")


# ------------------------------------------------------------------ files whose name holds their digest
def write_named(path: Path, write: Callable[[Any], object]) -> Path:
    """Writes a file with a function of a file object, then puts the digest into its name, before the suffix; returns the new name."""
    with naming(path), disk.create(path) as opened:
        file = HashedFile(opened)
        write(file)
    return _named(path, file.hasher.text)


def name_after_content(path: Path) -> Path:
    """Puts the digest of a file that exists into its name; returns the new name."""
    return _named(path, file_digest(path))


def _named(path: Path, digest: str) -> Path:
    named = path.with_name(f"{path.stem}.{digest}{path.suffix}")
    disk.rename(path, named)
    return named


def verify_name(path: Path) -> Path:
    """Verifies that a file has the digest in its name; CheckpointError if it has another one."""
    expected = digest_in_name(path)
    try:
        key = identity(path)
        if key in VERIFIED:
            return path
        if not expected or file_digest(path) != expected:
            raise damaged(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and disk.fetched(path):
            return verify_name(path)
        raise damaged(path, error.strerror or str(error)) from error
    VERIFIED[key] = None
    return path


def digest_in_name(path: Path) -> str:
    """The digest in a file's name; empty if there is none."""
    found = _NAMED.search(path.name)
    return found[1] if found else ""


# ------------------------------------------------------------------ beginnings of files that grow
def committed(path: Path, length: int, digest: str) -> Hasher:
    """The hasher of the committed beginning of a file, to be continued with what is appended.

    CheckpointError if the file is shorter, or its beginning does not have the committed digest.
    """
    hasher = Hasher()
    if length and path.exists():
        with disk.opened(path) as file:
            while hasher.size < length and (piece := file.read(min(BLOCK, length - hasher.size))):
                hasher.update(piece)
    if hasher.size < length:
        wrong = f"{length - hasher.size} of the {length} bytes that the checkpoint has committed are gone"
    elif length and hasher.text != digest:
        wrong = f"its first {length} bytes are not those that the checkpoint has committed"
    else:
        return hasher
    raise CheckpointError(f"{path}: {wrong}; bring the file back, or use another checkpoint")


def cut_back(path: Path, length: int, digest: str) -> Hasher:
    """Cuts a file back to its committed beginning; returns the hasher of :func:`committed`. A file that differs is left as it is."""
    disk.make_folder(path.parent)
    hasher = committed(path, length, digest)
    disk.cut_back(path, length)
    return hasher
