"""Sinks for answers as JSON lines: a file, and standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, TextIO

import numpy as np
import pyarrow as pa

from cqels_opt.errors import RunError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.evaluate_task import FinishReport, Format
from cqels_opt.runtime.output_owner import Owner, claim_file
from cqels_opt.storage import checksum, disk
from cqels_opt.storage.checksum import Hasher, cut_back
from cqels_opt.storage.file_errors import naming

LARGE = 1 << 18  # bytes of a range of answers that the kernel copies


@dataclass(frozen=True, slots=True)
class Stretch:
    """A byte range of answers: of a file, or of lines in memory."""

    of: Path | pa.Buffer
    start: int
    size: int


def in_order_of_time(chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> Iterator[Stretch]:
    """The byte ranges of the answers of several reports, by instant. Reads no file: tasks report where each instant begins."""

    def source(report: FinishReport) -> Path | pa.Buffer:
        return folder / report.path if report.lines is None else report.lines

    some = sorted((report for _, report in chunks if len(report.times)), key=lambda report: int(report.times[0, 0]))
    if all(one.times[-1, 0] < other.times[0, 0] for one, other in pairwise(some)):  # the parts of one query's answers
        yield from (Stretch(source(report), 0, int(report.times[:, 1].sum())) for report in some)
        return
    reports = [report for _, report in chunks if len(report.times)]
    sources = [source(report) for report in reports]
    number = np.repeat(np.arange(len(reports)), [len(report.times) for report in reports])
    time, size = np.concatenate([report.times for report in reports]).T
    start = np.concatenate([np.cumsum(report.times[:, 1]) - report.times[:, 1] for report in reports])
    order = np.lexsort((number, time))  # stable: the instants of a file stay in their order
    number = number[order]
    first = np.flatnonzero(np.append(True, number[1:] != number[:-1]))  # neighbours of one file are one stretch
    sizes = np.add.reduceat(size[order], first)
    for of, begin, length in zip(number[first].tolist(), start[order][first].tolist(), sizes.tolist()):
        yield Stretch(sources[of], begin, length)


def pieces(stretches: Iterable[Stretch]) -> Iterator[memoryview]:
    """The bytes of each range, verified. Each file is mapped once. RunError for a file that is too short."""
    contents: dict[Path, memoryview] = {}
    for stretch in stretches:
        yield _piece_of(stretch, contents)


def _piece_of(stretch: Stretch, contents: dict[Path, memoryview]) -> memoryview:
    """The bytes of a range; ``contents`` has the files that were mapped before."""
    if not isinstance(stretch.of, Path):
        content = memoryview(stretch.of)
    elif stretch.of in contents:
        content = contents[stretch.of]
    else:
        content = contents[stretch.of] = memoryview(disk.mapped(checksum.verify_name(stretch.of)))
    piece = content[stretch.start : stretch.start + stretch.size]
    if len(piece) < stretch.size:
        raise _cut_off(stretch.of)
    return piece


def append(to: BinaryIO, stretches: Iterable[Stretch], hasher: Hasher) -> None:
    """Appends byte ranges to a file, verified. Each file is mapped once; small ranges, of which many queries give many, are joined.

    The kernel copies large ranges of files where possible: this process only hashes them.
    """
    to.seek(0, os.SEEK_END)
    contents: dict[Path, memoryview] = {}
    waiting: list[memoryview] = []
    held = 0

    def write_waiting() -> None:
        nonlocal held
        joined = waiting[0] if len(waiting) == 1 else b"".join(waiting)
        hasher.update(joined)
        to.write(joined)
        waiting.clear()
        held = 0

    for stretch in stretches:
        if stretch.size >= LARGE:
            write_waiting()
        if stretch.size < LARGE or not isinstance(stretch.of, Path):
            waiting.append(_piece_of(stretch, contents))
            held += stretch.size
            if held >= LARGE:
                write_waiting()
            continue
        if _is_whole(stretch.of, stretch.size):
            _hash_whole(stretch.of, hasher)
        else:
            hasher.update(_piece_of(stretch, contents))
        to.flush()
        _copy(stretch.of, stretch.start, stretch.size, to)
        to.seek(0, os.SEEK_END)  # the kernel moved the position of the file, not that of its buffer
    write_waiting()


def _copy(path: Path, start: int, size: int, to: BinaryIO) -> None:
    with disk.opened(path) as source:
        place, end = start, start + size
        while place < end:
            copied = disk.copy(source, to, place, end - place)
            if not copied:
                raise _cut_off(path)
            place += copied


def _is_whole(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:  # to verify it names the file
        return False


def _hash_whole(path: Path, hasher: Hasher) -> None:
    """Hashes a file of answers for the output, and verifies it meanwhile: its bytes are read once."""
    content, own = memoryview(disk.mapped(path)), Hasher()
    for at in range(0, len(content), checksum.BLOCK):
        block = content[at : at + checksum.BLOCK]
        own.update(block)
        hasher.update(block)
    if own.text != checksum.digest_in_name(path):
        raise checksum.damaged(path)


def _cut_off(of: Path | pa.Buffer) -> RunError:
    return RunError(f"{of if isinstance(of, Path) else 'lines in memory'}: the answers are cut off")


class FileSink:
    """JSON lines in a file that is truncated to its committed length before a batch is repeated."""

    format: Format = "jsonl"

    def __init__(self, path: Path) -> None:
        self.path, self._hasher = path, Hasher()

    def claim(self, owner: Owner, lengths: Mapping[str, int]) -> None:
        """Claims the file for a run. InputError if it belongs to another run, or was not written by a run."""
        self._held = claim_file(self.path, owner, lengths.get("out", 0))

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the file so far."""
        return {"out": self._hasher.text}

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Truncates to the committed length."""
        self._hasher = cut_back(self.path, lengths.get("out", 0), digests.get("out", ""))

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Appends. Durable with the commit, or at once if the file is on another file system."""
        with naming(self.path), disk.modify(self.path) as file:
            append(file, in_order_of_time(chunks, folder), self._hasher)
            disk.flush_for(file, folder)
            return {"out": file.tell()}


class StreamSink:
    """JSON lines on standard output. Printed lines cannot be withdrawn: after a crash a batch may be printed twice."""

    format: Format = "jsonl"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(self, to: TextIO | None) -> None:
        self.to = to or sys.stdout

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Does nothing: printed lines cannot be withdrawn."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Prints."""
        for piece in pieces(in_order_of_time(chunks, folder)):
            lines = str(piece, "utf-8")
            with naming("standard output"):
                self.to.write(lines)
        with naming("standard output"):
            self.to.flush()
        return {}
