"""Blocks that share windows have the statistics that each has alone, also where a block joins a window with itself."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cqels_opt.plans import DeltaRule
from cqels_opt.stats import BlockStatistics, Key, SharedWindows, SlotCounts, StaticRelation, WindowedRelation, slot_counts
from cqels_opt.stats.frequencies import Ints
from cqels_opt.stats.slot_statistics import Intervals
from cqels_opt.stats.window import BOTH

WIDTHS = (1, 7, 40)
SHAPES = ("at", "knows")  # a slot has columns v0 and v1


def window(width: int) -> Intervals:
    return lambda t: (t, t + width)


def modulo(values: Ints) -> Ints:
    return np.asarray(values % 3, np.int64)


def relations(rng: random.Random) -> list[tuple[str, WindowedRelation]]:
    """Some occurrences, each with the shape that it matches; several may be of one shape and window."""
    found = []
    for number in range(rng.randint(1, 3)):
        shape, width = rng.choice(SHAPES), rng.choice(WIDTHS)
        variables = tuple(rng.sample("xyz", 2))
        found.append((shape, WindowedRelation(f"r{number}", variables, window(width), identity=f"{shape} {width}")))
    return found


def static(name: str, identity: str = "") -> StaticRelation:
    return StaticRelation(name, ("x",), 5, {"x": 5}, {"x": modulo}, identity)


class Pair:
    """A block that shares its windows, and the same block with windows of its own."""

    def __init__(self, rng: random.Random, shared: SharedWindows, budget: int) -> None:
        self.occurrences, name = relations(rng), rng.choice("st")
        streams = [relation for _, relation in self.occurrences]
        alone = [WindowedRelation(r.name, r.variables, r.intervals) for r in streams]
        self.together = BlockStatistics([*streams, static(name, "modulo 3")], shared=shared, budget=budget)
        self.alone = BlockStatistics([*alone, static(name)], budget=budget)

    def advance(self, slots: dict[str, list[SlotCounts]], before: int, frontier: int) -> None:
        self.together.advance({r.name: slots[shape] for shape, r in self.occurrences}, before, frontier)
        renamed = {
            r.name: [replace(s, values=dict(zip(r.variables, [s.values["v0"], s.values["v1"]]))) for s in slots[shape]]
            for shape, r in self.occurrences
        }
        self.alone.advance(renamed, before, frontier)

    def values(self, statistics: BlockStatistics, rule: Sequence[str]) -> list[dict[Key, float | None]]:
        return [statistics.view(DeltaRule(tuple(rule)).contents(source)).values() for source in rule]

    def check(self, rng: random.Random) -> None:
        rule = [relation.name for _, relation in self.occurrences]
        rng.shuffle(rule)
        for found, expected in zip(self.values(self.together, rule), self.values(self.alone, rule), strict=True):
            assert found == pytest.approx(expected)
        names = [(r.name, variable) for _, r in self.occurrences for variable in r.variables]
        for source in rule:
            views = [s.view(DeltaRule(tuple(rule)).contents(source)) for s in (self.together, self.alone)]
            assert [views[0].distinct(*name) for name in names] == pytest.approx([views[1].distinct(*name) for name in names])


def batch(rng: np.random.Generator, step: int, most: int) -> dict[str, list[SlotCounts]]:
    slots = {}
    for shape in SHAPES:
        rows = int(rng.integers(0, 40))
        columns = {f"v{i}": rng.integers(0, most, rows) for i in range(2)}
        slots[shape] = [slot_counts(2 * step + SHAPES.index(shape), np.sort(10 * step + rng.integers(0, 10, rows)), columns)]
    return slots


@pytest.mark.parametrize("budget", [1 << 20, 64])
@pytest.mark.parametrize("seed", range(20))
def test_blocks_that_share_windows_have_the_statistics_that_they_have_alone(seed: int, budget: int) -> None:
    rng, numbers, shared = random.Random(seed), np.random.default_rng(seed), SharedWindows()
    most = 8 if budget > 64 else 200
    pairs = [Pair(rng, shared, budget) for _ in range(5)]
    for step in range(12):
        slots = batch(numbers, step, most)
        for pair in pairs:
            pair.advance(slots, 10 * step - 2, 10 * step + 8)
        for pair in rng.sample(pairs, 3):  # the others read join sizes later than these
            if budget > 64:
                pair.check(rng)
    assert [pair.together.epoch for pair in pairs] == [pair.alone.epoch for pair in pairs]
    if budget > 64:
        for pair in pairs:
            pair.check(rng)
    for pair in pairs:  # numbers of rows are exact in any case
        cards = [{name: w.card() for name, w in s.windows.items()} for s in (pair.together, pair.alone)]
        assert cards[0] == cards[1]


def test_windows_are_those_of_equal_patterns_in_equal_windows() -> None:
    shared = SharedWindows()
    one = BlockStatistics([WindowedRelation("a", ("x",), window(5), identity="p 5")], shared=shared)
    other = BlockStatistics(
        [
            WindowedRelation("b", ("y",), window(5), identity="p 5"),
            WindowedRelation("c", ("y",), window(6), identity="p 6"),
            WindowedRelation("d", ("y",), window(5)),
        ],
        shared=shared,
    )
    assert one.windows["a"] is other.windows["b"]
    assert len({id(w) for w in (*one.windows.values(), *other.windows.values())}) == 3


def test_the_sizes_of_joins_of_removed_queries_are_forgotten() -> None:
    """A slot of a long window would have one for each static relation that any query has had; checkpoints have them too."""
    shared, stream = SharedWindows(), WindowedRelation("a", ("x",), window(1000), identity="p 1000")
    blocks = [BlockStatistics([stream, static("s", f"version {number}")], shared=shared) for number in range(3)]
    for step in range(2):
        slot = slot_counts(step, np.arange(10 * step, 10 * step + 10), {"v0": np.arange(10) % 4})
        for block in blocks:
            block.advance({"a": slot}, 10 * step - 1, 10 * step + 9)
            block.view(DeltaRule(("a",)).contents("a")).values()
    (kept,) = {id(block.windows["a"]): block.windows["a"] for block in blocks}.values()
    assert {len(held.known) for held in kept.held("delta")} == {3}
    last, size = blocks[-1], Key("join_size", ("a", "s", "x"))
    before = last.view({"a": BOTH}).value(size)
    shared.retain([kept], last.static_sizes)
    assert [len(held.known) for held in (*kept.held("old"), *kept.held("delta"))] == [1, 1]
    assert last.view({"a": BOTH}).value(size) == before


def test_a_join_ends_with_the_last_block_that_reads_it() -> None:
    shared = SharedWindows()
    streams = [WindowedRelation(name, ("x",), window(width), identity=f"p {width}") for name, width in (("a", 5), ("b", 50))]
    first, second = (BlockStatistics([*streams, static(name, "modulo 3")], shared=shared) for name in "st")
    listening = first.windows["a"]._listeners

    def step(number: int, *blocks: BlockStatistics) -> None:
        slot = slot_counts(number, np.arange(10 * number, 10 * number + 10), {"v0": np.arange(10) % 4})
        for block in blocks:
            block.advance({"a": slot, "b": slot}, 10 * number - 1, 10 * number + 9)
            block.view(DeltaRule(("a", "b")).contents("a")).values()

    step(0, first, second)
    step(1, first, second)
    step(2, first, second)
    both = [reference() for reference in listening]
    assert len(both) == len({id(listener) for listener in both if listener is not None})
    del both, first
    gc.collect()
    step(3, second)
    assert all(reference() is not None for reference in listening) and listening
    kept = second.windows["a"]
    del second
    gc.collect()
    kept.update()
    assert not any(reference() for reference in listening)


def test_windows_that_no_block_advances_are_not_found_again() -> None:
    shared = SharedWindows()
    stream = WindowedRelation("a", ("x",), window(100), identity="p 100")
    removed = BlockStatistics([stream], shared=shared)
    removed.advance({"a": slot_counts(1, np.arange(3), {"v0": np.arange(3)})}, -1, 3)
    shared.retain([], set())
    added = BlockStatistics([stream], shared=shared)
    assert added.windows["a"] is not removed.windows["a"] and added.windows["a"].card() == 0


def test_a_block_that_is_added_counts_only_windows_that_no_other_has_counted() -> None:
    shared = SharedWindows()
    streams = [WindowedRelation(name, ("x",), window(width), identity=f"p {width}") for name, width in (("a", 50), ("b", 60))]
    first = BlockStatistics([streams[0]], shared=shared)
    first.advance({"a": slot_counts(1, np.arange(3), {"v0": np.arange(3)})}, -1, 3)
    second = BlockStatistics(streams, shared=shared)
    content = [slot_counts(2, np.arange(3), {"v0": np.arange(3)})]
    second.begin({"a": content, "b": content}, -1, 3)
    assert [second.windows[name].card() for name in "ab"] == [3, 3]
    assert second.epoch == 1 and first.epoch == 1
