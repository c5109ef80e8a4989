"""Partitions that are written in pieces are those that are written at once; and orders are what sorting says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.lod import partition
from cqels_opt.lod.order import sorted_order, stable_order
from cqels_opt.lod.partition import PartitionWriter, merged
from cqels_opt.lod.relation import Relation

small = st.integers(1, 6)
rows_of = st.lists(st.tuples(small, small), max_size=40)


@given(rows_of, st.lists(st.integers(0, 40), max_size=5), st.integers(1, 8))
@settings(max_examples=60)
def test_pieces_make_the_files_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]], cuts: list[int], size: int
) -> None:
    folder = tmp_path_factory.mktemp("partition")
    different = sorted(set(rows))
    s, o = (np.array([row[i] for row in different], np.int64) for i in (0, 1))
    checksum = Relation.build({"s": s, "o": o}).save(folder / "whole", [("s",), ("o",)])
    writer = PartitionWriter(folder / "pieces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition.merged, "__defaults__", (size,))
        bounds = [0, *sorted(min(cut, len(s)) for cut in cuts), len(s)]
        for begin, end in pairwise(bounds):
            writer.append(s[begin:end], o[begin:end])
        assert writer.close() == checksum
    for file in (folder / "whole").iterdir():
        assert file.read_bytes() == (folder / "pieces" / file.name).read_bytes(), file.name
    assert len(list((folder / "whole").iterdir())) == len(list((folder / "pieces").iterdir()))


@given(st.lists(st.lists(small, max_size=30), min_size=1, max_size=5), st.integers(1, 20))
def test_merging_is_sorting(values: list[list[int]], size: int) -> None:
    runs, row = [], 0
    for some in values:
        array = np.array(some, np.int64)
        order = np.argsort(array, kind="stable")
        runs.append(np.stack([array[order], row + order]))
        row += len(some)
    everything = np.array([value for some in values for value in some], np.int64)
    pieces = list(merged(runs, size))
    found = np.concatenate([np.empty((2, 0), np.int64), *(np.stack(piece) for piece in pieces)], axis=1)
    order = np.argsort(everything, kind="stable")
    assert found.tolist() == [everything[order].tolist(), order.tolist()]


def test_a_value_with_very_many_rows_is_not_held_at_once() -> None:
    """Half of all rows have one value: pieces stay as small as runs are."""
    draw = np.random.default_rng(1)
    runs, row = [], 0
    for _ in range(20):
        array = np.where(draw.random(1000) < 0.5, 7, draw.integers(8, 1 << 40, 1000))
        order = stable_order(array)
        runs.append(np.stack([array[order], row + order]))
        row += 1000
    assert max(len(values) for values, _ in merged(runs, 1000)) <= 2000


@given(st.lists(st.tuples(small, small, st.integers(-(2**62), 2**62)), max_size=50))
def test_the_order_of_columns(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    order = sorted_order(columns)
    assert [rows[i] for i in order.tolist()] == sorted(rows)
    assert stable_order(columns[0]).tolist() == np.argsort(columns[0], kind="stable").tolist()


@pytest.mark.parametrize("size", (0, 1, 2, 9, 50, 3000))
@pytest.mark.parametrize("repeated", (0.0, 0.1, 0.3, 1.0))
def test_a_stable_order_of_values_of_which_some_are_equal(size: int, repeated: float) -> None:
    draw = np.random.default_rng(size)
    values = draw.permutation(3 * size)[:size].astype(np.int64)
    values[draw.random(size) < repeated] = 7 * size
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
