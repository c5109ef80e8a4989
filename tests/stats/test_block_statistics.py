"""A block's statistics against brute force over random steps, and as the optimizer reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.plans import DeltaRule
from cqels_opt.plans.statistics import StatisticKey, Statistics
from cqels_opt.stats import (
    BlockStatistics,
    SlotCounts,
    StaticRelation,
    StatisticsView,
    WindowedRelation,
    load,
    save,
    slot_counts,
    slot_parts,
    with_instants,
)
from cqels_opt.stats.frequencies import Ints

PLACES = {0: 1, 1: 3, 2: 0}
Span = Callable[[int], tuple[int, int]]


def fanout(values: Ints) -> Ints:
    return np.array([PLACES.get(int(value), 0) for value in values], np.int64)


def block(range_ms: int = 5) -> BlockStatistics:
    """A small Q2: who is somewhere now, who was there in the last ``range_ms``, and where that is."""
    return BlockStatistics(
        [
            WindowedRelation("lsnow", ("person1", "loc"), lambda t: (t, t + 1)),
            WindowedRelation("ls30", ("person2", "loc"), lambda t: (t, t + range_ms)),
            StaticRelation("loc_name", ("loc", "name"), rows=4, distincts={"loc": 2}, fanouts={"loc": fanout}),
            StaticRelation("name#1", ("person1", "n1"), rows=9),
        ],
        filters=["different"],
    )


def slot(number: int, rows: list[tuple[int, int, int]], person: str, parts: int = 1) -> tuple[SlotCounts, ...]:
    t, who, loc = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return slot_parts(number, t, {person: who, "loc": loc}, parts)


def view_of(statistics: BlockStatistics, source: str, order: Sequence[str] = ()) -> StatisticsView:
    """The statistics as the plan of a source reads them; the delta rule takes the occurrences in this order."""
    return statistics.view(DeltaRule(tuple(order or statistics.windows)).contents(source))


BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)), max_size=6), min_size=1, max_size=6
)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(BATCHES, st.permutations(["lsnow", "ls30"]), st.integers(1, 3))
def test_join_sizes_equal_brute_force(drawn: list[list[tuple[int, int, int]]], order: list[str], lateness: int) -> None:
    statistics, seen = block(), list[tuple[int, int, int]]()
    spans: dict[str, Span] = {"lsnow": lambda t: (t, t + 1), "ls30": lambda t: (t, t + 5)}
    persons = {"lsnow": "person1", "ls30": "person2"}
    for step, batch in enumerate(drawn):
        new = [(4 * step + t, who, loc) for t, who, loc in batch]
        frontier = 4 * step - lateness
        statistics.advance({name: slot(step, new, persons[name], parts=99) for name in spans}, frontier, frontier + 4)
        old = {name: [row for row in seen if span(row[0])[1] > frontier] for name, span in spans.items()}
        for source in spans:
            before = order[: order.index(source)]
            rows = {name: new if name == source else old[name] + (new if name in before else []) for name in spans}
            begins = min((t for t, _, _ in new), default=frontier)
            view = view_of(statistics, source, order)
            for name in spans:  # of the others what has ended when the delta begins meets nothing
                met = [row for row in rows[name] if name == source or spans[name](row[0])[1] > begins]
                assert view.cardinality(name) == len(met)
                assert view.distinct(name, "loc") == pytest.approx(min(len({row[2] for row in rows[name]}), len(met)))
                assert view.join_size(name, "loc_name", "loc") == pytest.approx(sum(PLACES[row[2]] for row in met))
            expected = 0.0
            pieces = {name: [new] if name == source else [old[name], *([new] if name in before else [])] for name in spans}
            for left in pieces["lsnow"]:
                for right in pieces["ls30"]:
                    equal = sum(a[2] == b[2] for a in left for b in right)
                    meet = sum(a[0] < b[0] + 5 and b[0] < a[0] + 1 for a in left for b in right)
                    expected += equal * meet / (len(left) * len(right)) if left and right else 0
            assert view.join_size("lsnow", "ls30", "loc") == pytest.approx(expected)
            assert view.join_size("ls30", "lsnow", "loc") == view.join_size("lsnow", "ls30", "loc")
        seen += new


def test_two_windows_are_joined_as_far_as_the_delta_meets_them() -> None:
    """Tumbling windows of 10 ms: what came before the delta's own window is over for it, though it expires with the step after."""
    tumbling = [WindowedRelation(name, ("x",), lambda t: (t, t // 10 * 10 + 10)) for name in "abc"]
    statistics = BlockStatistics(tumbling)
    statistics.advance({name: slot_counts(0, np.array([3, 12, 13]), {"x": np.array([1, 1, 2])}) for name in "bc"}, 0, 15)
    for delta, rows, joined in ((9, 3, 5 * 5 / 9), (14, 2, 5 * 4 / 9), (25, 0, 0.0)):
        now = BlockStatistics(tumbling)
        load(save(statistics), now)
        now.advance({"a": slot_counts(1, np.array([delta]), {"x": np.array([1])})}, 5, 30)
        view = view_of(now, "a")
        assert view.cardinality("b") == view.cardinality("c") == rows
        assert view.join_size("b", "c", "x") == pytest.approx(joined)  # equal values, times the share of pairs that meet
        assert now.view(dict.fromkeys("abc", ("old",))).cardinality("b") == 3


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=12)


@settings(max_examples=200)
@given(st.tuples(ROWS, ROWS), st.booleans(), st.integers(1, 3))
def test_rows_of_one_instant_are_joined_as_often_as_values_and_times_are_equal(
    given: tuple[list[tuple[int, int]], list[tuple[int, int]]], timed: bool, parts: int
) -> None:
    """Where their values are not counted with their times, value and time are taken to be independent."""
    statistics = BlockStatistics([WindowedRelation(name, ("x",), lambda t: (t, t + 1), momentary=True) for name in "ab"])
    new = {}
    for name, rows in zip("ab", given):
        t, x = (np.array(column, np.int64) for column in zip(*rows))
        new[name] = slot_parts(0, t, with_instants(t, {"x": x}) if timed else {"x": x}, parts)
    statistics.advance(new, -1, 10)
    left, right = given
    equal = sum(x == y for _, x in left for _, y in right)
    at_once = sum(one == other for one in left for other in right) if timed else 0
    share = sum(t == u for t, _ in left for u, _ in right) / (len(left) * len(right))
    found = view_of(statistics, "a", order="ba").join_size("a", "b", "x")
    assert found == pytest.approx(at_once + share * (equal - at_once))


def test_a_window_whose_rows_have_ended_joins_nothing() -> None:
    """Also where shares of slots have been added and removed, which are rounded."""
    empty = 0
    for seed in range(40):
        rng, now = np.random.default_rng(seed), 0
        statistics = BlockStatistics(
            [
                WindowedRelation("now", ("x",), lambda t: (t, t + 1)),
                WindowedRelation("last", ("x",), lambda t: (t, t + 5_000)),
                StaticRelation("s", ("x",), rows=1_000, distincts={"x": 100}, fanouts={"x": lambda values: values % 7}),
            ]
        )
        for number in range(20):
            after = now + int(rng.choice([1_000, 3_000, 7_000]))
            new = {}
            for name, first in (("now", (now + after) // 2), ("last", now)):
                if name == "now" or rng.random() < 0.6:
                    rows = int(rng.integers(1, 60))
                    new[name] = slot_parts(number, np.sort(rng.integers(first, after, rows)), {"x": rng.integers(0, 30, rows)}, 1)
            statistics.advance(new, now, after)
            now = after
            view = statistics.view({"now": ("delta",), "last": ("old",)})
            size = view.join_size("last", "s", "x")
            assert size is not None and size >= 0
            if not view.cardinality("last"):
                empty += 1
                assert size == 0
    assert empty > 10


def test_what_is_not_observed_is_none() -> None:
    view = view_of(block(), "lsnow")
    assert view.cardinality("lsnow") == 0  # observed: nothing has come
    assert view.cardinality("elsewhere") is None
    assert view.distinct("name#1", "person1") is None
    assert view.distinct("loc_name", "elsewhere") is None
    assert view.join_size("lsnow", "name#1", "person1") is None
    assert view.join_size("lsnow", "loc_name", "person1") is None
    assert view.selectivity("different") is None


def test_keys_read_as_in_the_trace() -> None:
    assert [str(key) for key in block().keys] == [
        "cardinality(lsnow)",
        "cardinality(ls30)",
        "cardinality(loc_name)",
        "cardinality(name#1)",
        "join_size(lsnow, ls30, ?loc)",
        "join_size(lsnow, loc_name, ?loc)",
        "join_size(lsnow, name#1, ?person1)",
        "join_size(ls30, loc_name, ?loc)",
        "distinct(lsnow, ?person1)",
        "distinct(name#1, ?person1)",
        "selectivity(different)",
    ]


def test_the_newest_observations_weigh_most() -> None:
    statistics = block()
    for _ in range(8):
        statistics.observe("different", 100, 100)
    statistics.observe("different", 0, 0)
    for _ in range(8):
        statistics.observe("different", 100, 0)
    assert view_of(statistics, "lsnow").selectivity("different") == pytest.approx(1 / 3)  # half of it against all of it


@pytest.mark.parametrize(("rows", "share"), [(1, 0.5), (100, 0.005), (1_000_000, 5e-7)])
def test_a_filter_that_kept_no_row_may_keep_the_next_one(rows: int, share: float) -> None:
    statistics = block()
    statistics.observe("different", rows, 0)
    assert view_of(statistics, "lsnow").selectivity("different") == pytest.approx(share)
    statistics.observe("different", 0.25, 0.25)
    assert (view_of(statistics, "lsnow").selectivity("different") or 2.0) <= 1.0


def test_wrong_names_are_errors() -> None:
    statistics = block()
    with pytest.raises(ValueError, match=r"contents are given for \['loc_name'\], but the occurrences are \['ls30', 'lsnow'\]"):
        statistics.view({"loc_name": ("old",)})
    with pytest.raises(ValueError, match="no such occurrence: other"):
        statistics.advance({"other": slot_counts(0, np.array([1]), {})}, 0, 1)
    with pytest.raises(ValueError, match="one name"):
        BlockStatistics([StaticRelation("a", (), 1), StaticRelation("a", (), 1)])
    with pytest.raises(ValueError, match="rows in"):
        statistics.observe("different", -1, 0)


def test_static_joins_come_from_the_load() -> None:
    a, b = StaticRelation("a", ("x",), 3), StaticRelation("b", ("x",), 4)
    stream = WindowedRelation("w", ("y",), lambda t: (t, t + 1))
    view = view_of(BlockStatistics([stream, a, b], static_joins={("b", "a", "x"): 7.0}), "w")
    assert view.join_size("a", "b", "x") == view.join_size("b", "a", "x") == 7.0


@settings(max_examples=60, deadline=None)
@given(BATCHES)
def test_a_replayed_batch_changes_nothing(drawn: list[list[tuple[int, int, int]]]) -> None:
    once, twice = block(), block()
    for step, batch in enumerate(drawn):
        rows = [(4 * step + t, who, loc) for t, who, loc in batch]
        new = {"lsnow": slot(step, rows, "person1"), "ls30": slot(step, rows, "person2")}
        once.advance(new, 4 * step - 2, 4 * step + 2)
        for _ in range(2 if rows else 1):
            twice.advance(new, 4 * step - 2, 4 * step + 2)
        for source in ("lsnow", "ls30"):
            assert view_of(once, source).values() == pytest.approx(view_of(twice, source).values(), nan_ok=True)
    assert once.epoch == twice.epoch


def test_a_view_is_what_the_optimizer_reads() -> None:
    statistics = block()
    rows = [(0, 1, 1), (0, 2, 1), (0, 2, 0)]
    statistics.advance({"lsnow": slot(0, rows, "person1"), "ls30": slot(0, rows, "person2")}, -1, 0)
    view: Statistics = view_of(statistics, "lsnow", ["ls30", "lsnow"])
    for key in statistics.keys:
        read = StatisticKey(key.kind, key.names)
        assert str(read) == str(key)
        assert read.read(view) == view_of(statistics, "lsnow", ["ls30", "lsnow"]).value(key)
    assert view.join_size("lsnow", "ls30", "loc") == 5


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(0, 5))
def test_another_version_of_a_static_relation_is_as_if_it_had_always_been_there(
    drawn: list[list[tuple[int, int, int]]], at: int
) -> None:
    def other(values: Ints) -> Ints:
        return np.asarray(values, np.int64) % 3 + 1

    version = StaticRelation("loc_name", ("loc", "name"), rows=7, distincts={"loc": 3}, fanouts={"loc": other})
    late, early = block(), block()
    early.replace(version)
    persons = {"lsnow": "person1", "ls30": "person2"}
    for step, batch in enumerate(drawn):
        if step == at:
            late.replace(version)
        new = [(4 * step + t, who, loc) for t, who, loc in batch]
        for statistics in (late, early):
            counts = {name: slot(step, new, person, parts=99) for name, person in persons.items()}
            statistics.advance(counts, 4 * step - 1, 4 * step + 3)
    late.replace(version)
    for source in persons:
        assert view_of(late, source).values() == view_of(early, source).values()


def test_only_a_static_relation_has_versions() -> None:
    for name in ("ls30", "nobody"):
        with pytest.raises(ValueError, match="there is no static relation"):
            block().replace(StaticRelation(name, ("loc",), rows=1))
