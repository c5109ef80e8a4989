"""Columns of small files that a process has written are read from memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cqels_opt.storage import columns
from cqels_opt.storage.columns import read_columns, write_columns


def test_a_slice_that_was_written_does_not_keep_what_it_is_of(tmp_path: Path) -> None:
    whole = np.arange(1_000_000)
    write_columns(tmp_path / "last", {"v0": whole[-3:], "v1": whole[::400_000]})
    kept = columns._WRITTEN[str(tmp_path / "last")][1]
    assert all(column.base is None for column in kept.values())
    found = read_columns(tmp_path / "last")
    assert found["v0"].tolist() == [999_997, 999_998, 999_999]
    assert found["v1"].tolist() == [0, 400_000, 800_000]
