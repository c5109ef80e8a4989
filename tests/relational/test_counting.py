"""Counts of a micro-batch: exact for times and keys, sampled for very many rows; and static relations' key counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.relational.counting import WHOLE, Counted, Extent, Layout, sampled_counts, weights_of
from cqels_opt.relational.fanouts import KeyCounts, heavy_for, level_for
from cqels_opt.stats import tally
from cqels_opt.stats.frequency_sketch import mixed

LAYOUT = Layout((("x",), ("x", "y")), ("a", "b"), (0, 1))
ROW = st.tuples(
    st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans(),
    st.one_of(st.none(), st.integers(-3, 3)), st.one_of(st.none(), st.integers(-3, 3)), st.one_of(st.none(), st.integers(-3, 3)),
)  # fmt: skip


@given(st.lists(ROW, max_size=12))
def test_counts_are_those_of_the_rows(rows: list[tuple[int | None, ...]]) -> None:
    """While no row is left out. Each relation has the times of its own stream."""
    columns = list(zip(*rows)) if rows else [()] * 7
    kinds = [pa.int64(), pa.int64(), pa.bool_(), pa.bool_(), pa.int64(), pa.int64(), pa.int64()]
    names = ["t0", "t1", "p0", "p1", "h0_0", "h1_0", "h1_1"]
    table = pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, kinds)})
    found = sampled_counts(table.append_column("place", pa.array(range(len(rows)), pa.int64())), LAYOUT, 7)
    for name, at, place, keys in (("a", 0, 2, {"x": 4}), ("b", 1, 3, {"x": 5, "y": 6})):
        mine = [row for row in rows if row[place]]
        slot = found[name]
        assert (slot.slot, slot.total) == (7, len(mine))
        times = [row[at] for row in mine]
        assert dict(zip(slot.times.tolist(), slot.rows.tolist())) == {t: times.count(t) for t in times}
        for variable, column in keys.items():
            values = [row[column] for row in mine if row[column] is not None]
            tallied = slot.values[variable]
            assert dict(zip(tallied.values.tolist(), tallied.counts.tolist())) == {v: values.count(v) for v in values}


@given(st.integers(0, 20 * WHOLE))
def test_sampled_rows_stand_for_all_rows(rows: int) -> None:
    """Of very many rows a few times :data:`WHOLE` are sampled; the estimate is off by less than the last weight."""
    places = np.arange(rows)
    sampled = places[places % weights_of(places) == 0]
    weights = weights_of(sampled)
    assert len(sampled) <= WHOLE * (1 + np.log2(max(1, rows / WHOLE) + 1))
    assert 0 <= weights.sum() - rows < max(1, weights.max(initial=1))


def test_a_micro_batch_lasts_from_the_first_to_the_last_row() -> None:
    assert Counted().times is None
    assert Counted(extents={"a": Extent(), "b": Extent(3, 5, 9), "c": Extent(1, 2, 2)}).times == (2, 9)


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
