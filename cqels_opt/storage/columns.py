"""Columnar files of int64 columns (and strings) that readers map into memory: slots, element tables, pages of terms.

They are Arrow files in sealed files (:mod:`cqels_opt.storage.sealed_files`): each reader verifies what it maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.storage import sealed_files
from cqels_opt.storage.checksum import Blocks
from cqels_opt.storage.sealed_files import Unwritten
from cqels_opt.storage.shared_cache import SharedCache
from cqels_opt.storage.verified_array import array_of

SMALL = 1 << 20
"""Bytes of a table that is written in one piece."""

Columns = dict[str, NDArray[np.int64]]
T = TypeVar("T", bound=np.generic)

_WRITTEN: SharedCache[str, tuple[tuple[int, int], Columns]] = SharedCache(
    1 << 18, getsizeof=lambda kept: max(_values(kept[1]), 1 << 11)
)
"""Columns of small files that this process has written, of at most 128: the batch reads most of them at once."""


def _values(columns: Columns) -> int:
    return 1 + sum(map(len, columns.values()))


def write_table(path: Path, table: pa.Table) -> None:
    """Writes a file under a temporary name and renames it, so that a reader never sees a part of it."""
    _write(path, table, table.nbytes)


def _write(path: Path, table: pa.Table | pa.RecordBatch, size: int) -> None:
    if size < SMALL:  # Arrow writes it in many pieces
        sealed_files.write(path, _bytes_of(table))
        return
    with sealed_files.sealing(path) as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write(table)


def _bytes_of(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write(table)
    return buffer.getvalue()


def read_table(path: Path) -> pa.Table:
    """The table of a file, mapped into memory and verified. A missing or damaged file is a CheckpointError."""
    return pa.ipc.open_file(sealed_files.opened_whole(path)).read_all()


def write_columns(path: Path, columns: Mapping[str, NDArray[np.int64]]) -> None:
    """Writes int64 columns of equal length, which nobody changes later."""
    table = pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})
    write_table(path, table)
    if table.nbytes < SMALL // 4:
        _WRITTEN[str(path)] = sealed_files.stamp(path), _own(columns)


def _own(arrays: Mapping[str, NDArray[T]]) -> dict[str, NDArray[T]]:
    """Arrays that are no slices: these would keep the whole arrays that they are of."""
    return {name: array if array.base is None else array.copy() for name, array in arrays.items()}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Writes arrays of different lengths, which nobody changes later, and texts about them."""
    size = sum(array.nbytes for array in arrays.values())
    if size < SMALL:
        own = _own(arrays)
        sealed_files.write(path, Unwritten((own, metadata), size, lambda: _bytes_of(_batch_of(own, metadata))))
    else:
        _write(path, _batch_of(arrays, metadata), size)


def _batch_of(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> pa.RecordBatch:
    """Each array is a list in a table of one row."""
    lists = [_as_list(array) for array in arrays.values()]
    schema = pa.schema(
        [pa.field(name, a.type) for name, a in zip(arrays, lists)], dict[bytes | str, bytes | str](metadata.items())
    )
    return pa.RecordBatch.from_arrays(lists, schema=schema)


def _as_list(array: NDArray[Any]) -> pa.Array[Any]:
    """An array of numbers as the only list of a column, without a copy. Built of buffers, which takes half the time of ``pa.array``."""
    values, size = pa.from_numpy_dtype(array.dtype), len(array)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(array).data)]
    child = pa.Array.from_buffers(values, size, buffers, 0)
    return pa.Array.from_buffers(pa.large_list(values), 1, [None, pa.py_buffer(np.array([0, size]).data)], 0, 0, [child])


def read_arrays(path: Path, *, at_once: bool = False) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and texts of :func:`write_arrays`; the arrays are mapped. Arrays of a large file are verified as they are read, or
    ``at_once``: for those of which most is read.
    """
    if (written := sealed_files.value(path)) is not None:
        arrays, metadata = cast("tuple[dict[str, NDArray[Any]], dict[str, str]]", written)
        return dict(arrays), dict(metadata)
    content, blocks = (sealed_files.opened_whole(path), None) if at_once else sealed_files.opened(path)
    if blocks is not None:
        _verify_descriptions(blocks, content)
    table: Any = pa.ipc.open_file(content).read_all()
    values = {name: table.column(name).chunk(0).values.to_numpy(zero_copy_only=True) for name in table.column_names}
    if blocks is None:
        arrays = values
    else:
        starts = {name: array.__array_interface__["data"][0] - content.address for name, array in values.items()}
        _verify_between(blocks, content.size, [(starts[name], array.nbytes) for name, array in values.items() if len(array)])
        arrays = {name: array_of(array, blocks, starts[name]) if len(array) else array for name, array in values.items()}
    return arrays, {name.decode(): text.decode() for name, text in table.schema.metadata.items()}


def _verify_descriptions(blocks: Blocks, content: pa.Buffer) -> None:
    """Verifies the metadata of an Arrow file: its schema, the description of its record batch, its footer."""
    data, at = memoryview(content), 8
    for _ in range(2):
        blocks.verify_span(at - 8, at + 8)
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        blocks.verify_span(at, at + 8 + length)
        at += 8 + length
    end = content.size - 10
    blocks.verify_span(end, content.size)
    blocks.verify_span(end - int.from_bytes(data[end : end + 4], "little"), end)


def _verify_between(blocks: Blocks, size: int, arrays: list[tuple[int, int]]) -> None:
    """Verifies all of a file but its arrays: the descriptions before, between and behind them."""
    at = 0
    for start, length in sorted(arrays):
        blocks.verify_span(at, start)
        at = start + length
    blocks.verify_span(at, size)


def read_columns(path: Path) -> Columns:
    """The columns of a file, without a copy if the file has one record batch."""
    if (written := _as_written(path)) is not None:
        return written
    table = read_table(path)
    return {name: np.asarray(table.column(name).combine_chunks().to_numpy(zero_copy_only=False)) for name in table.column_names}


def _as_written(path: Path) -> Columns | None:
    """The columns that this process has written to a file, if they are still there."""
    if (written := _WRITTEN.get(str(path))) is None:
        return None
    try:
        return dict(written[1]) if written[0] == sealed_files.stamp(path) else None
    except OSError:
        return None  # reading the file reports what is wrong
