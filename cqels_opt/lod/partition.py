"""Writing a vertical partition that need not fit in memory: sorted rows arrive in pieces, and its files grow with them.

The result is, byte for byte, that of :meth:`Relation.save` for the same rows. The index on objects is built by an external merge
sort: each piece leaves a sorted run of (object, row), and the runs are merged range by range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from cqels_opt.lod.fan_out import fan_out
from cqels_opt.lod.files import FileEntry, file_entry, load_mapped
from cqels_opt.lod.order import Ids, is_sorted, run_starts, stable_order
from cqels_opt.lod.relation import described_index, save_header
from cqels_opt.stats.frequencies import distinct_values
from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import naming

#: Rows that are sorted at a time.
MERGED: Final = 1 << 20
_SAMPLES: Final = 1 << 8
_RUNS: Final = "runs"


class GrowingArray:
    """An ``.npy`` file that is written piece by piece; its header is right once it is closed."""

    def __init__(self, path: Path, dtype: type[np.generic] | np.dtype[Any]) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        self._file: BinaryIO = disk.create(path)
        self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        """Append values."""
        with naming(self.path):
            self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> FileEntry:
        """Complete the file; its size and checksum."""
        with naming(self.path):
            self._file.seek(0)
            self._write_header()
            self._file.close()
        return file_entry(self.path)

    def _write_header(self) -> None:
        # numpy leaves room in the header for any length
        described = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.length,)}
        npy.write_array_header_1_0(self._file, described)


class PartitionWriter:
    """Writes a partition to a folder from its distinct (s, o) rows, which arrive in order, in pieces."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / _RUNS).mkdir()
        self.folder = folder
        self._s, self._o = GrowingArray(folder / "c0.npy", np.int64), GrowingArray(folder / "c1.npy", np.int64)
        self._keys, self._starts = (
            GrowingArray(folder / "i0.keys.npy", np.int64),
            GrowingArray(folder / "i0.starts.npy", np.int64),
        )
        self._last = 0
        self._last_object: int | None = None
        self._in_order = True
        self._runs = 0

    @property
    def rows(self) -> int:
        """Rows that have been written."""
        return self._s.length

    def append(self, s: Ids, o: Ids) -> None:
        """Append rows."""
        if not len(s):
            return
        before = self.rows
        starts = run_starts((s,))
        if self._keys.length and s[0] == self._last:
            starts = starts[1:]
        self._keys.append(s[starts])
        self._starts.append(before + starts)
        self._s.append(s)
        self._o.append(o)
        self._in_order &= is_sorted(o) and (self._last_object is None or bool(o[0] >= self._last_object))
        self._last, self._last_object = int(s[-1]), int(o[-1])
        order = stable_order(o)
        path = self.folder / _RUNS / f"{self._runs}.npy"
        with naming(path), disk.create(path) as file:
            np.save(file, np.stack([o[order], before + order]))
        self._runs += 1

    def close(self) -> str:
        """Write the index on objects and the header; the header's checksum."""
        rows = self.rows
        self._starts.append(np.array([rows]))
        files = {
            "c0.npy": self._s.close(),
            "c1.npy": self._o.close(),
            "i0.keys.npy": self._keys.close(),
            "i0.starts.npy": self._starts.close(),
            **self._objects(),
        }
        disk.delete_folder(self.folder / _RUNS)
        described = [
            described_index(("s",), 0, True, fan_out(_mapped(self.folder / "i0.starts.npy"))),
            described_index(("o",), 0, self._in_order, fan_out(_mapped(self.folder / "i1.starts.npy"))),
        ]
        distinct = {"s": described[0]["keys"], "o": described[1]["keys"]}
        return save_header(self.folder, rows, False, distinct, described, files)

    def _objects(self) -> dict[str, FileEntry]:
        """Merge the runs into the index on objects."""
        keys, starts = (GrowingArray(self.folder / f"i1.{name}.npy", np.int64) for name in ("keys", "starts"))
        small = self.rows < 1 << 31
        rows = None if self._in_order else GrowingArray(self.folder / "i1.rows.npy", np.int32 if small else np.int64)
        written, last = 0, None
        for objects, at in merged([_mapped(self.folder / _RUNS / f"{number}.npy") for number in range(self._runs)]):
            firsts = run_starts((objects,))
            if objects[0] == last:
                firsts = firsts[1:]
            keys.append(objects[firsts])
            starts.append(written + firsts)
            if rows is not None:
                rows.append(at)
            written, last = written + len(objects), int(objects[-1])
        starts.append(np.array([written]))
        files = {"i1.keys.npy": keys.close(), "i1.starts.npy": starts.close()}
        return files if rows is None else {**files, "i1.rows.npy": rows.close()}


def merged(runs: Sequence[Ids], size: int = MERGED) -> Iterator[tuple[Ids, Ids]]:
    """Runs of (value, row), each sorted, as one sorted sequence in pieces of about ``size``.

    Rows of equal values are in the order of the runs. Values with very many rows do not enlarge a piece: they are passed on run by
    run.
    """
    cuts = _cuts(runs, size)
    ends = [np.concatenate([[0], np.searchsorted(run[0], cuts, "right"), [run.shape[1]]]) for run in runs]
    for number in range(len(cuts) + 1):
        pieces = [run[:, end[number] : end[number + 1]] for run, end in zip(runs, ends)]
        pieces = [piece for piece in pieces if piece.shape[1]]
        if not pieces:
            continue
        if all(piece[0, 0] == piece[0, -1] == pieces[0][0, 0] for piece in pieces):
            yield from ((piece[0], piece[1]) for piece in pieces)
            continue
        values, rows = np.concatenate(pieces, axis=1)
        order = stable_order(values)
        yield values[order], rows[order]


def _cuts(runs: Sequence[Ids], size: int) -> Ids:
    """Values that cut the runs into ranges of about ``size`` rows; a value with more rows than that has a range of its own."""
    total = sum(run.shape[1] for run in runs)
    if total <= size:
        return np.empty(0, np.int64)
    step = max(1, size // _SAMPLES)
    samples = np.sort(np.concatenate([run[0, ::step] for run in runs]))
    picked = samples[_SAMPLES - 1 :: _SAMPLES]
    often = distinct_values(picked[1:][picked[1:] == picked[:-1]])
    cuts: Ids = distinct_values(np.concatenate([picked, often - 1]))
    return cuts


def _mapped(path: Path) -> Ids:
    mapped: Ids = load_mapped(path)[0]
    return mapped
