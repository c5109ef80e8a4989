"""Saved statistics go on as if they had never stopped; damaged ones are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.plans import DeltaRule
from cqels_opt.stats import (
    BlockStatistics,
    Key,
    SlotCounts,
    StaticRelation,
    WindowedRelation,
    load,
    load_slot,
    save,
    save_slot,
    slot_counts,
    summary,
    with_instants,
)
from cqels_opt.stats.packing import pack, unpack


def block(budget: int = 1 << 20) -> BlockStatistics:
    return BlockStatistics(
        [
            WindowedRelation("a", ("x", "y"), lambda t: (t, t + 3)),
            WindowedRelation("b", ("x",), lambda t: (t, t + 40)),
            StaticRelation("s", ("x",), 5, {"x": 5}, {"x": lambda values: values % 3}),
            StaticRelation("u", ("y",), 5),
        ],
        filters=["f"],
        budget=budget,
    )


def numbers(statistics: BlockStatistics, source: str) -> dict[Key, float | None]:
    return statistics.view(DeltaRule(("a", "b")).contents(source)).values()


def batch(step: int, seed: int, most: int = 30) -> dict[str, SlotCounts]:
    rng = np.random.default_rng([seed, step])
    t, x, y = 10 * step + rng.integers(0, 10, 60), rng.integers(0, most, 60), rng.integers(0, 5, 60)
    return {"a": slot_counts(step, t, {"x": x, "y": y}), "b": slot_counts(step, t, {"x": x})}


def run(statistics: BlockStatistics, steps: range, seed: int, most: int = 30) -> None:
    for step in steps:
        statistics.advance(batch(step, seed, most), 10 * step - 2, 10 * step + 8)
        statistics.observe("f", 10, step)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 8), st.sampled_from([64, 1 << 20]))
def test_a_restart_goes_on_as_if_nothing_had_happened(seed: int, stop: int, budget: int) -> None:
    most = 30 if budget > 64 else 1000
    through, before, after = block(budget), block(budget), block(budget)
    run(through, range(12), seed, most)
    run(before, range(stop), seed, most)
    load(save(before), after)
    assert summary(after) == summary(before)
    run(after, range(stop, 12), seed, most)
    for source in ("a", "b"):
        assert numbers(after, source) == pytest.approx(numbers(through, source))
    assert after.epoch == through.epoch


def test_a_summary_is_json_and_readable() -> None:
    statistics = block()
    run(statistics, range(3), 1)
    found = summary(statistics)
    assert json.loads(json.dumps(found)) == found
    assert found["frontier"] == 28
    assert found["filters"] == {"f": {"kept": pytest.approx(0.1, abs=0.05), "observations": 3}}
    assert set(found["joins"]) == {"join_size(a, b, ?x)", "join_size(a, s, ?x)", "join_size(a, u, ?y)", "join_size(b, s, ?x)"}  # type: ignore[arg-type]
    assert found["joins"]["join_size(a, u, ?y)"] is None  # type: ignore[index, call-overload]


def test_other_statistics_are_refused() -> None:
    data = save(block())
    other = BlockStatistics([WindowedRelation("c", ("x",), lambda t: (t, t + 1))])
    with pytest.raises(ValueError, match=r"of \['a', 'b'\], not of \['c'\]"):
        load(data, other)
    same_name = BlockStatistics(
        [WindowedRelation("a", ("x",), lambda t: (t, t + 1)), WindowedRelation("b", ("x",), lambda t: (t, t))]
    )
    with pytest.raises(ValueError, match=r"variables \['x', 'y'\]"):
        load(data, same_name)


def test_statistics_without_counts_of_values_with_times_are_continued() -> None:
    """They are of a version that did not count them, or of a query with one pattern per instant."""
    sides = [
        [WindowedRelation(name, ("x",), lambda t: (t, t + 1), momentary=momentary) for name in "ab"]
        for momentary in (False, True)
    ]
    before, after = (BlockStatistics(relations) for relations in sides)
    times, values = np.array([3, 3, 4]), np.array([1, 2, 2])
    before.advance({name: slot_counts(0, times, {"x": values}) for name in "ab"}, 0, 10)
    load(save(before), after)
    for name in ("a", "b"):
        contents = {other: ("delta",) if other == name else ("old", "delta") for other in "ab"}
        one, two = before.view(contents), after.view(contents)
        assert one.cardinality("b") == two.cardinality("b") == 3
        assert one.join_size("a", "b", "x") == two.join_size("a", "b", "x") == 5 * 5 / 9
    after.advance({name: slot_counts(1, times + 10, with_instants(times, {"x": values})) for name in "ab"}, 10, 20)
    assert after.view({"a": ("delta",), "b": ("old", "delta")}).join_size("a", "b", "x") == pytest.approx(3 + 5 / 9 * 2)


def test_damaged_bytes_are_refused() -> None:
    data = save_slot(batch(0, 0)["a"])
    for wrong in (b"", b"nonsense", data[:-1], data + b"x", data[:20], data[:8] + b"}" + data[9:]):
        with pytest.raises(ValueError, match="packed statistics"):
            load_slot(wrong)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.integers(-300, 300)))
def test_arrays_survive_packing(wide: list[int], narrow: list[int]) -> None:
    tree = unpack(pack({"wide": np.array(wide, np.int64), "rest": [np.array(narrow, np.int64), None, 1.5, "x", True]}))
    assert isinstance(tree, dict)
    assert isinstance(tree["rest"], list)
    assert np.asarray(tree["wide"]).tolist() == wide
    assert np.asarray(tree["rest"][0]).tolist() == narrow
    assert tree["rest"][1:] == [None, 1.5, "x", True]


def test_small_numbers_take_little_room() -> None:
    times = np.arange(5000) + 1_199_145_600_000
    assert len(pack(times)) < 2 * 5000 + 100
