"""What a worker keeps must not outlive what it was made of: a folder may be emptied and filled with another relation."""

import shutil
from pathlib import Path

import numpy as np

from cqels_opt.lod.relation import Relation
from cqels_opt.state import worker_cache


def test_a_relation_that_took_another_ones_place_is_opened_anew(tmp_path: Path) -> None:
    folder = tmp_path / "relation0"
    for values in ([1, 2], [3, 4, 5]):
        shutil.rmtree(folder, ignore_errors=True)
        Relation.build({"x": np.array(values, np.int64)}).save(folder)
        assert worker_cache.relation("", str(folder)).columns["x"].tolist() == values
