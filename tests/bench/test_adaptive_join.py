"""The data of ``bench adaptive-join``, without Spark: each phase has another join with the smaller result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

from cqels_opt.bench.adaptive_join import PHASES, QUICK, make, phase


def test_the_right_order_changes_with_the_phase(tmp_path: Path) -> None:
    make(tmp_path, QUICK)
    files = sorted((tmp_path / "views").iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.stem for path in files] == [f"{number:04d}" for number in range(PHASES * QUICK.batches)]
    assert {path.stat().st_mtime for path in files} == {*range(len(files))}  # Spark reads them in the order of their times
    fanouts = {
        key: np.bincount(parquet.read_table(tmp_path / table, columns=[key]).column(key).to_numpy())
        for table, key in (("follows", "who"), ("offers", "item"))
    }
    for number, file in enumerate(files):
        views = parquet.read_table(file)
        rows = {}
        for key, fanout in fanouts.items():
            keys = views.column(key).to_numpy()
            rows[key] = int(fanout[keys[keys < len(fanout)]].sum())
        many, few = ("who", "item") if phase(number, QUICK) == 0 else ("item", "who")
        assert rows[many] == QUICK.views * QUICK.fanout
        assert 0 < rows[few] < QUICK.views / 10
