"""Counts of a micro-batch: exact for times and keys, sampled for very many rows; and static relations' key counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.relational.counting import Layout, count, gathered
from cqels_opt.relational.fanouts import KeyCounts, heavy_for, level_for
from cqels_opt.stats import tally
from cqels_opt.stats.frequency_sketch import mixed

LAYOUT = Layout((("x",), ("x", "y")), ("a", "b"), (0, 0))
ROW = st.tuples(
    st.one_of(st.none(), st.integers(0, 5)), st.booleans(), st.booleans(), st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers(-3, 3)), st.one_of(st.none(), st.integers(-3, 3)), st.one_of(st.none(), st.integers(-3, 3)),
)  # fmt: skip


def batch(rows: list[tuple[int | None, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows)) if rows else [()] * 7
    kinds = [pa.int64(), pa.bool_(), pa.bool_(), pa.bool_(), pa.int64(), pa.int64(), pa.int64()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds)]
    return pa.RecordBatch.from_arrays(arrays, names=["t0", "late0", "p0", "p1", "h0_0", "h1_0", "h1_1"])


@given(st.lists(st.lists(ROW, max_size=8), max_size=3), st.lists(st.lists(ROW, max_size=8), max_size=2))
def test_counts_are_those_of_the_rows(one: list[list[tuple[int | None, ...]]], two: list[list[tuple[int | None, ...]]]) -> None:
    """For every split of the rows into Arrow batches and tasks."""
    tasks = [count(map(batch, part), LAYOUT) for part in (one, two)]
    found = gathered(pa.Table.from_batches(tasks), LAYOUT, 7)
    rows = [row for part in (*one, *two) for row in part]
    assert found.elements == len(rows)
    assert found.late == sum(bool(late and (p0 or p1)) for _, late, p0, p1, *_ in rows)
    assert found.rejected == sum(bool(t is None and not late and (p0 or p1)) for t, late, p0, p1, *_ in rows)
    for name, place, keys in (("a", 2, {"x": 4}), ("b", 3, {"x": 5, "y": 6})):
        mine = [row for row in rows if row[place] and row[0] is not None and not row[1]]
        slot = found.slots[name]
        assert (slot.slot, slot.total) == (7, len(mine))
        assert dict(zip(slot.times.tolist(), slot.rows.tolist())) == {
            t: [r[0] for r in mine].count(t) for r in mine for t in r[:1]
        }
        for variable, column in keys.items():
            values = [row[column] for row in mine if row[column] is not None]
            tallied = slot.values[variable]
            assert dict(zip(tallied.values.tolist(), tallied.counts.tolist())) == {v: values.count(v) for v in values}


def test_very_many_rows_are_counted_by_every_nth() -> None:
    rows, most = 10_000, 256
    keys = np.arange(rows) % 10
    t = np.arange(rows)
    whole = pa.table({"t0": t, "late0": np.zeros(rows, bool), "p0": np.ones(rows, bool), "h0_0": keys})
    layout = Layout((("x",),), ("a",), (0,))
    found = gathered(pa.Table.from_batches([count(whole.to_batches(max_chunksize=777), layout, most)]), layout, 0)
    assert found.slots["a"].total == rows  # by time, all rows
    step = 64  # the smallest power of 2 that keeps the limit
    kept = np.unique(keys[::step], return_counts=True)
    assert found.slots["a"].values["x"].values.tolist() == kept[0].tolist()
    assert found.slots["a"].values["x"].counts.tolist() == (kept[1] * step).tolist()


def test_each_stream_has_its_own_times() -> None:
    """Rows: of a; of b; of both, late for b; late for b alone; of none of the streams."""
    t0, t1 = pa.array([1, None, 3, None, None]), pa.array([None, 20, None, None, None], pa.int64())
    late1 = [False, False, True, True, False]
    yes, keys = [True] * 5, pa.array([7, 8, 9, 7, 8])
    columns = {"t0": t0, "late0": [False] * 5, "t1": t1, "late1": late1, "p0": yes, "h0_0": keys, "p1": yes, "h1_0": keys}
    layout = Layout((("x",), ("x",)), ("a", "b"), (0, 1))
    found = gathered(pa.Table.from_batches([count(pa.table(columns).to_batches(), layout)]), layout, 0)
    assert {name: slot.times.tolist() for name, slot in found.slots.items()} == {"a": [1, 3], "b": [20]}
    assert {name: slot.values["x"].values.tolist() for name, slot in found.slots.items()} == {"a": [7, 9], "b": [8]}
    assert (found.elements, found.late, found.rejected) == (5, 2, 1)


# ------------------------------------------------------------------ static relations
def key_counts(keys: np.ndarray, budget: int) -> KeyCounts:
    """As Spark counts them: all, or the sample of small hashes, and the heavy ones."""
    whole = tally(keys)
    level = level_for(len(whole.values), budget)
    heavy = heavy_for(len(keys), level, budget)
    held = np.ones(len(whole.values), bool)
    if level:
        held = (whole.values.view(np.uint64) >> np.uint64(64 - level) == 0) | (whole.counts >= heavy)
    return KeyCounts(len(keys), len(whole.values), type(whole)(whole.values[held], whole.counts[held]), level, heavy)


def hashed(values: np.ndarray) -> np.ndarray:
    return mixed(values).view(np.int64)


def test_within_the_budget_everything_is_exact() -> None:
    one, two = (hashed(np.random.default_rng(seed).integers(0, 50, 400)) for seed in (1, 2))
    a, b = key_counts(one, 64), key_counts(two, 64)
    assert a.level == b.level == 0
    probes = np.unique(np.concatenate([one, two, hashed(np.array([99]))]))
    assert a.fanout(probes).tolist() == [int((one == key).sum()) for key in probes]
    assert a.join_size(b) == sum(int((one == key).sum() * (two == key).sum()) for key in probes)


@pytest.mark.parametrize("budget", [256, 1024])
def test_beyond_the_budget_heavy_keys_are_exact_and_the_rest_is_right_on_average(budget: int) -> None:
    random = np.random.default_rng(5)
    light = hashed(random.integers(0, 20_000, 30_000))
    heavy = hashed(np.repeat(np.array([-1, -2]), [9_000, 5_000]))
    keys = np.concatenate([light, heavy])
    counts = key_counts(keys, budget)
    assert counts.level and len(counts.held.values) <= budget
    assert counts.fanout(hashed(np.array([-1, -2]))).tolist() == [9_000, 5_000]
    delta = hashed(random.integers(0, 20_000, 20_000))
    often = dict(zip(*(x.tolist() for x in np.unique(keys, return_counts=True))))
    exact = sum(often.get(key, 0) for key in delta.tolist())
    assert counts.fanout(delta).sum() == pytest.approx(exact, rel=0.35)
    other = key_counts(np.concatenate([delta, hashed(np.repeat(-1, 100))]), 4 * budget)
    assert counts.join_size(other) == pytest.approx(exact + 900_000, rel=0.05)


def test_an_empty_relation() -> None:
    nothing = key_counts(np.empty(0, np.int64), 16)
    assert nothing.fanout(np.array([1, 2])).tolist() == [0, 0]
    assert nothing.join_size(nothing) == 0
