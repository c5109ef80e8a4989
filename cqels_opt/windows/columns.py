"""Columnar files of int64 columns (and strings) that readers map into memory: slots, element tables, pages of terms."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.errors import CheckpointError
from cqels_opt.storage import disk

Columns = dict[str, NDArray[np.int64]]


def write_table(path: Path, table: pa.Table) -> None:
    """Writes an Arrow file under a temporary name and renames it, so that a reader never sees a part of it."""
    disk.make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with disk.create(temporary) as file, pa.ipc.new_file(disk.arrow(file), table.schema) as writer:
        writer.write_table(table)
    disk.rename(temporary, path)


def read_table(path: Path) -> pa.Table:
    """The table of an Arrow file, mapped into memory. One that is gone or cut off is a CheckpointError."""
    try:
        return pa.ipc.open_file(disk.mapped(path)).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise CheckpointError(f"{path}: the checkpoint is damaged ({str(error).splitlines()[0]}); use another folder") from error


def write_columns(path: Path, columns: Mapping[str, NDArray[np.int64]]) -> None:
    """Writes int64 columns of equal length."""
    write_table(path, pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()}))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], said: Mapping[str, str]) -> None:
    """Writes arrays of different lengths, and texts about them: each array is a list in a table of one row."""
    lists: dict[str, Any] = {
        name: pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), pa.array(array))
        for name, array in arrays.items()
    }
    write_table(path, pa.table(lists).replace_schema_metadata(dict(said)))


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """What :func:`write_arrays` wrote: the arrays, which are mapped, and the texts."""
    table: Any = read_table(path)
    arrays = {name: table.column(name).chunk(0).values.to_numpy(zero_copy_only=True) for name in table.column_names}
    return arrays, {name.decode(): text.decode() for name, text in table.schema.metadata.items()}


def read_columns(path: Path) -> Columns:
    """The columns of a file, without copying where the file has one record batch."""
    table = read_table(path)
    return {name: np.asarray(table.column(name).combine_chunks().to_numpy(zero_copy_only=False)) for name in table.column_names}
