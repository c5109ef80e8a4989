"""Counters in bounded memory beside exact ones: within the budget no difference, beyond it within the documented errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.stats import BoundedCounts, ValueCounts, WindowPair, WindowStatistics, slot_counts, tally
from cqels_opt.stats.frequencies import EMPTY, Ints
from cqels_opt.stats.frequency_sketch import ALL, LEAST_RISE, SAMPLE, RetainedFrequencies, heaviest


def half_minute(t: Ints) -> tuple[Ints, Ints]:
    return t, t + 30_000


def skewed(rng: np.random.Generator, rows: int, values: int) -> Ints:
    """Zipf-like values, spread over the id space."""
    rank = np.minimum(rng.zipf(1.3, rows), values)
    return rank * 1_000_003


def window(budget: int, slots: list[Ints], keep: int = 30) -> WindowStatistics:
    """A window over one slot a second, the last ``keep`` of which live."""
    found = WindowStatistics(["x"], lambda t: (t, t + keep * 1000), budget=budget)
    for second, column in enumerate(slots):
        found.expire(second * 1000)
        found.add(slot_counts(second, np.full(len(column), second * 1000 + 1), {"x": column}))
    return found


def counters(held: WindowStatistics) -> int:
    return held.whole["x"].counts.distinct + sum(one.counts["x"].counts.distinct for one in held.held("old"))


# ------------------------------------------------------------------ the estimates
def test_a_sketch_is_unbiased() -> None:
    """Over many hash functions (the values shifted) the means of the estimates are the truth, and they spread as documented."""
    rng = np.random.default_rng(3)
    left, right = tally(rng.integers(0, 400, 3000)), tally(rng.integers(200, 600, 3000))
    truth, level, sizes, distincts = ValueCounts(left).dot(ValueCounts(right)), 2, [], []
    both, f, g = np.intersect1d(left.values, right.values, return_indices=True)
    for shift in range(400):
        one, two = (BoundedCounts(ValueCounts(side._replace(values=side.values + 10_000 * shift))) for side in (left, right))
        heavy = one.counts.tally().values[:20]
        one.keep(RetainedFrequencies(heavy, level))
        two.keep(RetainedFrequencies(EMPTY, level))
        sizes.append(one.dot(two))
        distincts.append(one.distinct)
    spread = np.sqrt((2**level - 1) * float(((left.counts[f] * right.counts[g]).astype(float) ** 2).sum()))
    assert np.mean(sizes) == pytest.approx(truth, abs=4 * spread / np.sqrt(400))
    assert np.std(sizes) == pytest.approx(spread, rel=0.2)
    spread = np.sqrt((2**level - 1) * (len(left.values) - 20))
    assert np.mean(distincts) == pytest.approx(len(left.values), abs=4 * spread / np.sqrt(400))
    assert np.std(distincts) == pytest.approx(spread, rel=0.2)
    assert len(both)


@pytest.mark.parametrize("level", [1, 3, 5])
def test_errors_exceed_k_standard_errors_as_rarely_as_chebyshev_says(level: int) -> None:
    """Of 400 hash functions; with heavy values apart, for joins, for their relative bound, and for distinct values."""
    rng = np.random.default_rng(level)
    left, right = (tally(skewed(rng, 4000, 600) // 1_000_003) for _ in range(2))
    both, f, g = np.intersect1d(left.values, right.values, return_indices=True)
    heavy = np.isin(both, heaviest(left, 10)) | np.isin(both, heaviest(right, 10))
    products = (left.counts[f] * right.counts[g]).astype(float)
    truth, light = products.sum(), products[~heavy]
    error = np.sqrt((2**level - 1) * (light**2).sum())
    assert error <= truth * np.sqrt((2**level - 1) * light.max() / truth)
    of_distinct = np.sqrt((2**level - 1) * (len(left.values) - 10))
    beyond, beyond_distinct = [], []
    for shift in range(400):
        one, two = (BoundedCounts(ValueCounts(side._replace(values=side.values + 10_000 * shift))) for side in (left, right))
        kept = RetainedFrequencies(np.union1d(heaviest(one.tally(), 10), heaviest(two.tally(), 10)), level)
        one.keep(kept)
        two.keep(kept)
        beyond.append(abs(one.dot(two) - truth) / error)
        one = BoundedCounts(ValueCounts(left._replace(values=left.values + 10_000 * shift)))
        one.keep(RetainedFrequencies(heaviest(one.tally(), 10), level))
        beyond_distinct.append(abs(one.distinct - len(left.values)) / of_distinct)
    for k in (1.5, 2, 3, 5):
        assert np.mean(np.array(beyond) > k) <= 1 / k**2
        assert np.mean(np.array(beyond_distinct) > k) <= 1 / k**2


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 4))
def test_rows_not_held_are_spread_over_the_values_not_held(column: list[int], level: int) -> None:
    exact = BoundedCounts(ValueCounts(tally(np.array(column))))
    sketch = BoundedCounts(ValueCounts(tally(np.array(column))))
    kept = RetainedFrequencies(heaviest(exact.tally(), 3), level)
    sketch.keep(kept)
    values, counts = exact.tally()
    held = kept.holds(values)
    assert sketch.get(values)[held].tolist() == counts[held].tolist()
    assert set(kept.heavy) <= set(values[held])
    assert sketch.rows == exact.rows == len(column)
    if sketch.distinct > sketch.counts.distinct:
        mean = (sketch.rows - sketch.counts.total) / (sketch.distinct - sketch.counts.distinct)
        assert (np.abs(sketch.get(values) - counts)[~held] <= np.maximum(counts[~held], mean)).all()


# ------------------------------------------------------------------ samples of exact counts
@given(st.lists(st.integers(-5, 5), max_size=60))
def test_a_sample_of_few_values_is_all_of_them(column: list[int]) -> None:
    counted = tally(np.array(column, np.int64))
    values, weights = BoundedCounts(ValueCounts(counted)).sampled()
    assert (values.tolist(), weights.tolist()) == (counted.values.tolist(), counted.counts.tolist())


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(SAMPLE, 4 * SAMPLE))
def test_a_sample_gives_each_value_its_rows_up_to_one_step(seed: int, distinct: int) -> None:
    """Systematic sampling: a value of k steps of rows is drawn k times, rounded down or up. So heavy values are always in it."""
    rng = np.random.default_rng(seed)
    column = np.concatenate([np.arange(distinct), skewed(rng, 5000, 2 * distinct) % (2 * distinct)])
    counted = tally(column)
    values, weights = BoundedCounts(ValueCounts(counted)).sampled()
    step = len(column) / SAMPLE
    assert (np.diff(values) >= 0).all() and np.isin(values, counted.values).all()
    assert weights.sum() == pytest.approx(len(column))
    if len(counted.values) > SAMPLE:
        assert len(values) == SAMPLE
        drawn = np.bincount(np.searchsorted(counted.values, values), minlength=len(counted.values))
        assert (np.abs(drawn - counted.counts / step) < 1 + 1e-9).all()


def test_a_sample_of_many_values_is_unbiased() -> None:
    """Over many orders of the values the mean of the estimates is the join size."""
    rng = np.random.default_rng(5)
    counts, fanout = rng.zipf(1.6, 1500).clip(max=500), rng.integers(0, 9, 1500)
    sizes = []
    for _ in range(300):
        order = rng.permutation(1500)
        values, weights = BoundedCounts(ValueCounts(tally(np.repeat(np.arange(1500), counts[order])))).sampled()
        sizes.append(float(weights @ fanout[order][values]))
    truth, error = float(counts @ fanout), np.std(sizes) / np.sqrt(300)
    assert np.std(sizes) < 0.1 * truth
    assert np.mean(sizes) == pytest.approx(truth, abs=4 * error)


def test_a_sample_is_kept_until_the_counts_change() -> None:
    counts = BoundedCounts(ValueCounts(tally(np.array([1, 1, 2]))))
    first = counts.sampled()
    assert counts.sampled() is first
    more = BoundedCounts(ValueCounts(tally(np.array([2, 3]))))
    counts.add(more)
    assert [part.tolist() for part in counts.sampled()] == [[1, 2, 3], [2.0, 2.0, 1.0]]
    counts.remove(more)
    assert [part.tolist() for part in counts.sampled()] == [part.tolist() for part in first]


def test_a_join_with_an_index_is_estimated_too() -> None:
    counts = BoundedCounts(ValueCounts(tally(np.arange(20_000))))
    counts.keep(RetainedFrequencies(EMPTY, 3))
    assert counts.dot(np.ones_like) == pytest.approx(20_000, rel=4 * np.sqrt(7 / 20_000))


# ------------------------------------------------------------------ in a window
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(600, 3000))
def test_both_windows_agree_within_the_errors(seed: int, budget: int) -> None:
    rng = np.random.default_rng(seed)
    slots = [skewed(rng, 400, 5000) for _ in range(40)]
    exact, bounded = window(1 << 20, slots), window(budget, slots)
    assert counters(bounded) <= budget < counters(exact)
    assert bounded.card() == exact.card()
    whole, level = exact.whole["x"], bounded.whole["x"].kept.level
    assert level > 0
    values, counts = whole.tally()
    light = ~bounded.whole["x"].kept.is_heavy(values)
    error = np.sqrt((2**level - 1) * light.sum())
    # Five standard errors, plus what values that became heavy later had before.
    assert bounded.distinct("x") == pytest.approx(exact.distinct("x"), abs=5 * error + 1)
    error = np.sqrt((2**level - 1) * float((counts[light].astype(float) ** 4).sum()))
    truth, estimate = whole.dot(whole), bounded.whole["x"].dot(bounded.whole["x"])
    assert estimate == pytest.approx(truth, abs=5 * error + 0.05 * truth)
    top = heaviest(whole.tally(), 3)
    assert bounded.count("x", top) == pytest.approx(exact.count("x", top))


def test_the_heaviest_are_exact_after_a_change_of_fashion() -> None:
    """A value that nobody had becomes the most frequent one."""
    rng = np.random.default_rng(5)
    before = [rng.integers(0, 100_000, 500) for _ in range(30)]
    after = [np.concatenate([rng.integers(0, 100_000, 400), np.full(100, 777_777)]) for _ in range(30)]
    held = window(2000, before + after)
    assert held.whole["x"].kept.level > 0
    assert held.count("x", np.array([777_777])).tolist() == [100 * 30]
    assert heaviest(held.whole["x"].tally(), 1).tolist() == [777_777]
    assert counters(held) <= 2000


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, LEAST_RISE - 1), st.integers(2, 12))
def test_what_a_value_had_before_it_was_heavy_is_missing_until_it_has_left(seed: int, few: int, early: int) -> None:
    """It is never overestimated, misses less than the least threshold for each slot that dropped it, and is exact in the end."""
    rng = np.random.default_rng(seed)
    value, others = 777_777, [rng.integers(0, 100_000, 500) for _ in range(21 + early)]
    columns = [np.concatenate([column, np.full(few if i < early else 200, value)]) for i, column in enumerate(others)]
    held = WindowStatistics(["x"], lambda t: (t, t + 20_000), budget=2000)
    for second, column in enumerate(columns):
        held.expire(second * 1000)
        held.add(slot_counts(second, np.full(len(column), second * 1000 + 1), {"x": column}))
        living = range(max(0, second - 20), second + 1)
        truth = sum(int((columns[i] == value).sum()) for i in living)
        dropped = sum(i < early for i in living)
        if second >= early:
            assert value in held.whole["x"].kept.heavy
            missing = truth - held.count("x", np.array([value]))[0]
            assert 0 <= missing <= few * dropped < LEAST_RISE * max(dropped, 1)
    assert held.whole["x"].kept.level > 0
    assert missing == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(300, 1500))
def test_a_heavy_value_is_never_overestimated(seed: int, budget: int) -> None:
    """Though values rise and give way to heavier ones all the time."""
    rng = np.random.default_rng(seed)
    slots = [(skewed(rng, 300, 3000) + 1_000_003 * int(rng.integers(0, 40))) for _ in range(45)]
    exact, bounded = window(1 << 20, slots, keep=15), window(budget, slots, keep=15)
    heavy = bounded.whole["x"].kept.heavy
    assert len(heavy)
    assert (bounded.count("x", heavy) <= exact.count("x", heavy)).all()


def test_an_empty_window_is_exact_again() -> None:
    held = window(100, [np.arange(1000)])
    assert held.whole["x"].kept.level > 0
    held.expire(10**6)
    assert (held.card(), held.whole["x"].kept, held.distinct("x")) == (0, ALL, 0.0)
    held.add(slot_counts(7, np.array([10**6 + 1]), {"x": np.array([3])}))
    assert held.distinct("x") == 1


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_pairs_of_bounded_windows(seed: int) -> None:
    """What is kept incrementally is what the counters give, though what they hold of the values changes on the way."""
    rng = np.random.default_rng(seed)
    left, right = (WindowStatistics(["x"], half_minute, budget=int(rng.integers(200, 900))) for _ in range(2))
    pair = WindowPair(left, right, "x")
    for second in range(50):
        for side in (left, right):
            side.absorb_delta(second * 1000)
            side.expire(second * 1000)
            column = rng.integers(0, 900, 60)
            side.add_delta([slot_counts(second, second * 1000 + rng.integers(1, 1000, 60), {"x": column})])
        truth = left.whole["x"].dot(right.whole["x"])
        assert pair.product("old", "old") == pytest.approx(truth + _apart(left, right), rel=1e-9)
    assert left.whole["x"].kept.level
    assert pair.size(["delta"], ["old", "delta"]) > 0


def _apart(left: WindowStatistics, right: WindowStatistics) -> float:
    size = sum(one.weight * one.counts["x"].dot(right.whole["x"]) for one in left.apart("old"))
    size += sum(one.weight * one.counts["x"].dot(left.whole["x"]) for one in right.apart("old"))
    return size + sum(
        a.weight * b.weight * a.counts["x"].dot(b.counts["x"]) for a in left.apart("old") for b in right.apart("old")
    )


# ------------------------------------------------------------------ many slots, many times
def test_many_slots_are_merged_and_nothing_is_lost() -> None:
    rng, counted = np.random.default_rng(1), []
    held = WindowStatistics(["x"], half_minute, most_slots=8)
    for step in range(100):
        held.expire(step * 1000)
        column = rng.integers(0, 50, 20)
        counted.append((step * 1000 + 1, column))
        held.add(slot_counts(step, np.full(20, step * 1000 + 1), {"x": column}))
        alive = [c for t, c in counted if t + 30_000 > step * 1000]
        assert held.card() == 20 * len(alive)
        assert held.count("x", np.arange(50)).sum() == pytest.approx(held.card())
        assert len(held.chunks()) <= 8 + 2
    held.expire(10**6)
    assert held.card() == 0


def test_many_times_are_told_apart_no_further_than_the_budget_allows() -> None:
    held = WindowStatistics(["x"], half_minute, budget=6400)
    held.add(slot_counts(0, np.arange(0, 20_000), {"x": np.zeros(20_000, np.int64)}))
    assert len(held.chunks()[0].ends) == 100
    assert held.card() == 20_000
    held.expire(40_000)  # half of them; a group is 200 ms wide
    assert 9_999 <= held.card() <= 9_999 + 200
