"""Files of lines, plain or compressed: opening, and blocks of whole lines."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import zstandard
from numpy.typing import NDArray

from cqels_opt.errors import DataError

BLOCK = 8 << 20
"""Bytes per read; the first read is much smaller, so that many files can be open before they are consumed."""

LONGEST_LINE = 64 << 20
"""Maximum bytes of a line. A longer line is not buffered: a few kilobytes that decompress to one line could fill memory."""
TOO_LONG = f"is longer than {LONGEST_LINE >> 20} MiB, the most that a line may have"

COMPRESSIONS = (".gz", ".zst")
_NONE = np.empty(0, np.int64)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UNREADABLE = (OSError, EOFError, zlib.error, zstandard.ZstdError)
"""Exceptions while reading a file that is damaged, truncated, or on a failing disk."""
_BLANKS = np.frombuffer(b" \t\r\n", np.uint8)


def format_of(path: Path) -> str:
    """The extension that determines the format, in lower case: ``.ndjson`` of ``a.ndjson.gz``."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return plain.suffix.lower()


def check_file(path: Path) -> None:
    """Raises DataError unless the path is a file."""
    if not path.exists():
        raise DataError(f"{path}: no such file; check the path")
    if not path.is_file():
        raise DataError(f"{path}: not a file")


def open_bytes(path: Path) -> BinaryIO:
    """The file's bytes, decompressed by extension."""
    match path.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        case ".zst":
            return io.BufferedReader(_Frames(path.open("rb")), 1 << 18)
        case _:
            return path.open("rb", buffering=1 << 18)


class _Frames(io.RawIOBase):
    """The content of a file of Zstandard frames. EOFError if the last one is incomplete, which the library's reader takes for its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: Any = None
        self._input, self._content, self._read = b"", memoryview(b""), 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        while not self._content:
            piece, self._input = self._input or self._file.read(1 << 17), b""
            if not piece and self._frame is not None:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            if not piece:
                return 0
            self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
            self._content = memoryview(self._frame.decompress(piece))
            if self._frame.eof:
                self._frame, self._input = None, self._frame.unused_data
        size = min(len(target), len(self._content))
        target[:size], self._content = self._content[:size], self._content[size:]
        self._read += size
        return size

    def tell(self) -> int:
        return self._read

    def close(self) -> None:
        self._file.close()
        super().close()


def rest_of_line(file: BinaryIO, room: int) -> bytes | None:
    """The rest of a line if it has at most ``room`` bytes; else skips the line and returns None."""
    found = file.readline(room + 1)
    if len(found) <= room:
        return found
    while found and not found.endswith(b"\n"):
        found = file.readline(1 << 20)
    return None


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records of a file: ``text``, and the begin and end of each non-blank record in it.

    ``lines`` are the line numbers, from 1, on which the records begin; ``too_long`` are those of omitted records.
    """

    text: bytes
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    lines: NDArray[np.int64]
    too_long: Sequence[int] = ()

    def record(self, i: int) -> bytes:
        """The bytes of the i-th record, without its line end."""
        return self.text[self.begins[i] : self.ends[i]]


def blocks(path: Path, *, quoted: bool = False) -> Iterator[Block]:
    """The file in blocks of whole lines; with ``quoted`` a newline between double quotes (CSV) does not end a record.

    Damaged or truncated compression raises :class:`DataError`. With ``quoted``, reading stops after a record that is too long: an
    unclosed quote may be the cause, so no later line end is certain to end a record.
    """
    line, rest, request, skipping = 1, b"", min(BLOCK, 1 << 16), False
    with open_bytes(path) as file:
        while True:
            try:
                read = file.read(request)
            except UNREADABLE as error:
                raise DataError(f"{path}:{line}: cannot be read on: {error}; check that the file is whole") from error
            request, at_end = min(BLOCK, 4 * request), not read
            if skipping and read:
                after = read.find(b"\n") + 1
                if not after:
                    continue
                read, line, skipping = read[after:], line + 1, False
            if line == 1 and not rest:
                read = read.removeprefix(BYTE_ORDER_MARK)
            text = rest + read
            if at_end and text and not text.endswith(b"\n"):
                text += b"\n"
            ends = _record_ends(text, quoted=quoted)
            if at_end and len(text) and (not len(ends) or ends[-1] != len(text) - 1):
                ends = np.append(ends, len(text) - 1)  # an unclosed quote, which the parser of the format reports
            if len(ends):
                cut = int(ends[-1]) + 1
                yield _block(text[:cut], ends, line)
                line += text.count(b"\n", 0, cut)
                rest = text[cut:]
            elif len(text) > LONGEST_LINE:
                yield Block(b"", _NONE, _NONE, _NONE, (line,))
                if quoted:
                    return
                rest, skipping = b"", True
            else:
                rest = text
            if at_end:
                return


def block_of(text: bytes, line: int) -> Block:
    """Some whole lines as a block; the first one has the number ``line``."""
    return _block(text, _record_ends(text, quoted=False), line)


def _record_ends(text: bytes, *, quoted: bool) -> NDArray[np.int64]:
    array = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(array == 10)
    if quoted and len(ends):
        quotes = np.flatnonzero(array == 34)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends


def _block(text: bytes, ends: NDArray[np.int64], line: int) -> Block:
    begins = np.concatenate([[0], ends[:-1] + 1])
    array = np.frombuffer(text, np.uint8)
    newlines = np.flatnonzero(array == 10)
    lines = line + np.searchsorted(newlines, begins)
    full = ends - begins <= LONGEST_LINE
    too_long = tuple(lines[~full].tolist())
    for i in np.flatnonzero(np.isin(array[begins], _BLANKS)):  # only a record that begins with a blank can be blank
        full[i] &= bool(text[begins[i] : ends[i]].strip())
    return Block(text, begins[full], ends[full], lines[full], too_long)
