"""The static data of a run, which its checkpoint recognizes at the next start."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from cqels_opt.errors import CheckpointError
from cqels_opt.local.loading import loaded
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.static_data import static_store


def write(file: Path, number: int, at: float) -> None:
    """One triple, at a time of modification."""
    parquet.write_table(pa.table({"s": ["<urn:a>"], "p": ["<urn:p>"], "o": [f"<urn:b{number}>"]}), file)
    os.utime(file, (at, at))


def test_a_file_of_a_folder_that_was_replaced_by_one_of_its_size(tmp_path: Path) -> None:
    sources, state = tmp_path / "sources.parquet", tmp_path / "state" / "static"
    sources.mkdir()
    write(sources / "1.parquet", 1, at=1)
    write(sources / "2.parquet", 2, at=2)

    def started() -> Path:
        return static_store(loaded, state, [StaticSource(sources)], "fail")

    assert started() == started()
    write(sources / "1.parquet", 3, at=1.5)
    with pytest.raises(CheckpointError, match="the checkpoint was made with other static data; use another folder"):
        started()
