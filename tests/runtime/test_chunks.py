"""Chunks of a replay by share: every row once, and only as many tasks as are worthwhile. Needs no session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from cqels_opt.runtime.chunks import ROWS_PER_TASK, read, shares
from cqels_opt.storage import checksum
from cqels_opt.windows.element_rows import ELEMENT_ROWS


def _chunk(folder: Path, rows: int, group: int) -> Path:
    numbers = pa.array(range(rows), pa.int64())
    columns = [numbers.cast(f.type) if pa.types.is_integer(f.type) else pa.nulls(rows, f.type) for f in ELEMENT_ROWS]
    path = folder / "chunk.parquet"
    parquet.write_table(pa.Table.from_arrays(columns, schema=ELEMENT_ROWS), path, row_group_size=group)
    return checksum.name_after_content(path)


@pytest.mark.parametrize(
    ("rows", "group", "most", "wanted"),
    [
        (10, 4, 8, 1),  # too few rows for two tasks
        (2 * ROWS_PER_TASK, ROWS_PER_TASK, 8, 2),
        (2 * ROWS_PER_TASK, 2 * ROWS_PER_TASK, 8, 1),  # a row group is not cut
        (6 * ROWS_PER_TASK, ROWS_PER_TASK // 2, 4, 4),  # no more tasks than slots
        (5 * ROWS_PER_TASK, ROWS_PER_TASK, 3, 3),
    ],
)
def test_shares(tmp_path: Path, rows: int, group: int, most: int, wanted: int) -> None:
    found = shares(_chunk(tmp_path, rows, group), most)
    assert len(found) == wanted
    assert [n for piece in found for batch in read(piece) for n in batch.column("offset").to_pylist()] == list(range(rows))
