"""Columnar files of int64 columns (and strings) that readers map into memory: slots, element tables, pages of terms."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.errors import CheckpointError

Columns = dict[str, NDArray[np.int64]]


def write_table(path: Path, table: pa.Table) -> None:
    """Writes an Arrow file under a temporary name and renames it, so that a reader never sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    temporary.replace(path)


def read_table(path: Path) -> pa.Table:
    """The table of an Arrow file, mapped into memory. One that is gone or cut off is a CheckpointError."""
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise CheckpointError(f"{path}: the checkpoint is damaged ({str(error).splitlines()[0]}); use another folder") from error


def write_columns(path: Path, columns: Mapping[str, NDArray[np.int64]]) -> None:
    """Writes int64 columns of equal length."""
    write_table(path, pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()}))


def read_columns(path: Path) -> Columns:
    """The columns of a file, without copying where the file has one record batch."""
    table = read_table(path)
    return {name: np.asarray(table.column(name).combine_chunks().to_numpy(zero_copy_only=False)) for name in table.column_names}
