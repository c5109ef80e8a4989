"""Slots: reading a span of time over many files, and ranks of elements."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cqels_opt.errors import CheckpointError
from cqels_opt.storage import columns
from cqels_opt.storage.columns import read_columns, write_columns
from cqels_opt.windows.binding_slots import Shape, SlotFile, rank_elements, read_span
from cqels_opt.windows.intervals import FOREVER


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def slot(folder: Path, name: str, times: list[int], values: list[int]) -> SlotFile:
    write_columns(folder / name, {"t": ints(*times), "e": np.arange(len(times)), "v0": ints(*values)})
    return SlotFile("slot", name, "s", "k", len(times), times[0] if times else 0, times[-1] if times else 0)


def table(folder: Path, name: str, elements: list[tuple[int, int, int]]) -> SlotFile:
    """The element table of a task: (time, partition, offset)."""
    columns = dict(zip(("t", "partition", "offset"), np.array(sorted(elements), np.int64).reshape(-1, 3).T))
    write_columns(folder / name, columns)
    times = sorted(t for t, _, _ in elements)
    return SlotFile("elements", name, "s", "", len(elements), times[0], times[-1])


def test_a_shape_names_constants_and_repeated_variables() -> None:
    same = Shape("s", (0, 255, 0), (0, -1, 0))
    assert same.width == 1
    assert same.key == "0-ff-0-0c0"
    assert Shape("s", (0, 0, 0), (0, 1, 2)).width == 3
    assert Shape("s", (1, 2, 3), (-1, -1, -1)).width == 0


@pytest.mark.parametrize("kept", [True, False])
def test_columns_are_read_as_they_were_written(kept: bool, tmp_path: Path) -> None:
    write_columns(tmp_path / "c", {"a": ints(3, -1), "b": ints(int(FOREVER), 0)})
    if not kept:
        columns._WRITTEN.clear()
    found = read_columns(tmp_path / "c")
    assert {name: column.tolist() for name, column in found.items()} == {"a": [3, -1], "b": [int(FOREVER), 0]}
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_columns_that_another_process_replaces_or_deletes_are_read_again(tmp_path: Path) -> None:
    write_columns(tmp_path / "c", {"a": ints(3)})
    written = columns._WRITTEN[str(tmp_path / "c")]
    write_columns(tmp_path / "c", {"a": ints(7)})
    columns._WRITTEN[str(tmp_path / "c")] = written  # as in the process that wrote it first
    assert read_columns(tmp_path / "c")["a"].tolist() == [7]
    (tmp_path / "c").unlink()
    with pytest.raises(CheckpointError, match=r"/c: the checkpoint is damaged \(No such file"):
        read_columns(tmp_path / "c")


def test_a_span_is_half_open_and_in_order_of_time(tmp_path: Path) -> None:
    slots = [slot(tmp_path, "a", [1, 5, 9], [10, 11, 12]), slot(tmp_path, "b", [2, 5], [20, 21]), slot(tmp_path, "c", [40], [30])]
    found = read_span(tmp_path, slots, 1, 9, 1)
    assert found["t"].tolist() == [2, 5, 5, 9]
    assert found["v0"].tolist() == [20, 11, 21, 12]
    assert found["task"].tolist() == [1, 0, 1, 0]
    assert found["e"].tolist() == [0, 1, 1, 2]
    assert read_span(tmp_path, slots, 9, 39, 1)["t"].tolist() == []


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), max_size=5), max_size=4),
    st.integers(-1, 21),
    st.integers(-1, 21),
)
@example([[(7, 0), (8, 1)], [(2, 2), (20, 3)], [(6, 4)]], 5, 10)
def test_a_span_by_brute_force(files: list[list[tuple[int, int]]], after: int, upto: int) -> None:
    """In the example the rows of the second file lie before and behind the span, and those of the third before those of the first."""
    after, upto = min(after, upto), max(after, upto)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slots = [slot(folder, f"f{i}", sorted(t for t, _ in rows), [v for _, v in sorted(rows)]) for i, rows in enumerate(files)]
        found = read_span(folder, slots, after, upto, 1)
        rows = sorted(zip(found["t"].tolist(), found["v0"].tolist()))
        assert rows == sorted(row for rows in files for row in rows if after < row[0] <= upto)
        assert (np.diff(found["t"]) >= 0).all()


def test_ranks_follow_time_partition_and_offset(tmp_path: Path) -> None:
    tables = [table(tmp_path, "a", [(5, 1, 0), (1, 1, 1)]), table(tmp_path, "b", [(5, 0, 3), (9, 0, 4)])]
    ranks = rank_elements(tmp_path, tables, 10, 5)
    assert ranks.of["a"].tolist() == [10, 12]
    assert ranks.of["b"].tolist() == [11, 13]
    assert ranks.times.tolist() == [1, 5, 5]
    assert ranks.time_of(ints(10, 12, 13, 99), int(FOREVER)).tolist() == [1, 5, int(FOREVER), int(FOREVER)]


def test_an_element_that_tasks_have_shared_has_one_rank(tmp_path: Path) -> None:
    tables = [table(tmp_path, "a", [(1, 0, 0), (2, 0, 1)]), table(tmp_path, "b", [(2, 0, 1), (3, 0, 2)])]
    ranks = rank_elements(tmp_path, tables, 0, 9)
    assert ranks.of["a"].tolist() == [0, 1]
    assert ranks.of["b"].tolist() == [1, 2]
    assert ranks.times.tolist() == [1, 2, 3]


def test_ranks_of_nothing(tmp_path: Path) -> None:
    ranks = rank_elements(tmp_path, [], 7, 100)
    assert ranks.times.tolist() == []
    assert ranks.time_of(ints(7), 3).tolist() == [3]
