"""Replays: Spark's file source triggers a batch, and the first stage reads the batch's chunk, each task some row groups.

Batch k is chunk k, whatever the source names (:meth:`cqels_opt.spark.stream.StreamRun.remaining`). If Spark read the rows, they would be
converted from Parquet to JVM rows and then to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.state.task_files import task_path
from cqels_opt.storage import checksum, disk

ROWS_PER_TASK = 50_000  # minimum rows per task, while there are enough tasks
FEW_TERMS = ["p", "o"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of a chunk."""

    path: str
    groups: tuple[int, ...]


def shares(chunk: Path, most: int) -> list[Piece]:
    """The row groups of a chunk in shares of at least ``ROWS_PER_TASK`` rows, ``most`` shares at most."""
    with disk.opened(checksum.verify_name(chunk)) as file:
        about = parquet.read_metadata(file)
    wanted = max(1, min(most, about.num_rows // ROWS_PER_TASK, about.num_row_groups))
    cuts = np.linspace(0, about.num_row_groups, wanted + 1).astype(int).tolist()
    return [Piece(task_path(chunk), tuple(range(first, last))) for first, last in pairwise(cuts)]


def read(piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows of a piece. Columns with few distinct terms keep the dictionaries of the file."""
    with (
        disk.opened(checksum.verify_name(Path(piece.path))) as opened,
        parquet.ParquetFile(opened, read_dictionary=FEW_TERMS) as file,
    ):
        yield from file.iter_batches(row_groups=list(piece.groups))
