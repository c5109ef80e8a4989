"""Multiplicities near 2^62: what fits is exact, what does not is refused in one sentence. Python's own integers are the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import RunError
from cqels_opt.lod.multiplicities import LIMIT, Ints, by_group, product, summed, total
from cqels_opt.lod.relation import Relation, compact, join, join_restrict, restrict
from cqels_opt.operators.accumulators import added_up
from cqels_opt.operators.aggregate import Members, group_intervals
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.interval_join import join as join_rows
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.stream_operators import answers
from cqels_opt.operators.stream_output import Answers
from cqels_opt.state.materialized_answers import advanced
from cqels_opt.stats.frequencies import ValueCounts, dot
from cqels_opt.stats.interval_overlap import overlapping, spans

near = st.one_of(
    st.integers(1, 9),
    st.builds(lambda power, by: max(1, (1 << power) + by), st.integers(20, 61), st.integers(-3, 3)),
    st.integers(1, LIMIT - 1),
)
"""Multiplicities that rows may have."""
lists = st.lists(near, min_size=1, max_size=6)
TOO_MANY = "more than 2\\^62 rows are equal in one result"


def exactly(wanted: list[int], run: Callable[[], Ints]) -> None:
    """A result is that of Python's integers, or is refused because one of these is too large."""
    if max(map(abs, wanted), default=0) >= LIMIT:
        with pytest.raises(RunError, match=TOO_MANY):
            run()
    else:
        assert run().tolist() == wanted


def ids(*values: int) -> Ints:
    return np.array(values, np.int64)


def bag(keys: list[int], n: list[int]) -> Relation:
    return Relation.build({"x": ids(*keys)}, ids(*n))


def rows(keys: list[int], n: list[int], variable: str = "x") -> Rows:
    size = len(keys)
    return Rows({variable: ids(*keys)}, np.zeros(size, np.int64), np.full(size, 9), ids(*n))


@given(st.lists(st.tuples(near, near), max_size=6))
def test_products(pairs: list[tuple[int, int]]) -> None:
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    exactly([a * b for a, b in pairs], lambda: product(ids(*left), ids(*right)))
    exactly([-a * b for a, b in pairs], lambda: product(ids(*[-a for a in left]), ids(*right)))


@given(st.lists(st.tuples(near, st.integers(0, 2), st.sampled_from([1, 1, -1])), max_size=8))
def test_sums(some: list[tuple[int, int, int]]) -> None:
    n, group = ids(*(sign * n for n, _, sign in some)), ids(*(group for _, group, _ in some))
    wanted = Counter[int]()
    for count, number, sign in some:
        wanted[number] += sign * count
    assert total(n) == sum(n.tolist())
    if min(wanted.values(), default=0) > -LIMIT:  # -2^62 itself fits
        exactly([wanted[number] for number in range(3)], lambda: by_group(n, group, 3))
        exactly([sum(n.tolist())], lambda: summed(n, lambda x: x.sum(keepdims=True))) if sum(n.tolist()) > -LIMIT else None


@given(lists, lists)
def test_relations(left: list[int], right: list[int]) -> None:
    """Joined, and projected to nothing or to a variable that all have."""
    one, other = bag([1] * len(left), left), bag([1] * len(right), right)
    assert one.total == sum(left)
    products = [a * b for a in left for b in right]
    exactly(products, lambda: join(one, other).multiplicities())
    exactly([sum(left)], lambda: restrict(one, []).multiplicities())
    exactly([sum(left)], lambda: compact({"x": one.columns["x"]}, one.n)[1])
    exactly([sum(products)], lambda: join_restrict(one, other, ["x"]).multiplicities())


@given(lists, lists)
def test_rows(left: list[int], right: list[int]) -> None:
    one, other = rows([1] * len(left), left), rows([1] * len(right), right)
    products = sorted(a * b for a in left for b in right)
    exactly(products, lambda: np.sort(join_rows(one, other).n))
    exactly(products, lambda: np.sort(np.concatenate([part.n for part in Indexed.of_rows(other).probe(one, ["x"])])))


@given(st.lists(st.tuples(near, st.integers(0, 1), st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=8))
def test_groups(some: list[tuple[int, int, int, int]]) -> None:
    """Running sums over members that enter and leave; only what a group has at one time counts."""
    n, group = ids(*(row[0] for row in some)), ids(*(row[1] for row in some))
    start, end = ids(*(row[2] for row in some)), ids(*(row[2] + row[3] for row in some))
    rows = Rows({}, start, end, n)
    intervals = group_intervals(group, rows, 2, 0, 9, False)
    wanted = [
        sum(count for count, of, begin, length in some if of == g and begin <= s < begin + length)
        for g, s in zip(intervals.group.tolist(), intervals.start.tolist())
    ]
    exactly(wanted, lambda: Members.of(intervals, group, rows).running(n)[0])


@given(st.lists(st.tuples(near, st.integers(0, 1)), min_size=1, max_size=8))
def test_differences_of_accumulators(some: list[tuple[int, int]]) -> None:
    n, keys = ids(*(row[0] for row in some)), ids(*(row[1] for row in some))
    always = np.zeros(len(n), np.int64), np.ones(len(n), np.int64)
    wanted = [sum(c for c, key in some if key == k) for k in sorted(set(keys.tolist()))]
    exactly(wanted, lambda: added_up(Rows({"k": keys, "#n": n}, *always, n), ["k"], ["#n"]).columns["#n"])


@given(lists, lists, st.sampled_from(["istream", "dstream"]))
def test_changes_of_answers(begins: list[int], ends: list[int], operator: str) -> None:
    """Equal rows that end and begin at one instant cancel out."""
    size = len(begins) + len(ends)
    found = Rows(
        {"x": np.ones(size, np.int64)},
        ids(*[1] * len(begins), *[0] * len(ends)),
        ids(*[2] * len(begins), *[1] * len(ends)),
        ids(*begins, *ends),
    )
    change = (sum(begins) - sum(ends)) * (1 if operator == "istream" else -1)
    if abs(change) < LIMIT:
        assert answers(found, ["x"], operator, ids(0, 10)).n.tolist() == [change] * (change > 0)
    else:
        with pytest.raises(RunError, match=TOO_MANY):
            answers(found, ["x"], operator, ids(0, 10))


@given(lists, lists)
def test_standing_answers(held: list[int], more: list[int]) -> None:
    changing = Rows({"x": np.ones(len(more), np.int64)}, np.ones(len(more), np.int64), np.full(len(more), 3), ids(*more))
    wanted = [sum(held), sum(held) + sum(more)]
    exactly(wanted, lambda: advanced(rows([1] * len(held), held), changing, ["x"], 3).n)


@given(lists)
def test_the_number_of_answers(n: list[int]) -> None:
    assert Answers(ids(*n), ids(*n), {}, "=").total == sum(n)


@given(st.lists(st.tuples(st.integers(0, (1 << 62) - 1), st.integers(0, (1 << 62) - 1)), max_size=6))
def test_join_sizes_are_not_wrapped(pairs: list[tuple[int, int]]) -> None:
    left, right = (ids(*(pair[side] for pair in pairs)) for side in (0, 1))
    wanted = sum(a * b for a, b in pairs)
    assert dot(left, right) == wanted
    values, kept = np.arange(len(pairs)), ids(*(max(1, a) for a in left.tolist()))
    assert ValueCounts().dot(lambda values: values) == 0
    counts = ValueCounts()
    counts.add(values, kept)
    assert counts.dot(lambda values: right[values]) == sum(a * b for a, b in zip(kept.tolist(), right.tolist()))


def test_pairs_of_windows_are_not_wrapped() -> None:
    many = ids(1 << 40)
    wide = spans(ids(0), ids(9), many)
    assert overlapping([wide], [spans(ids(1), ids(5), many)]) == 1 << 80
    assert overlapping([wide], [spans(ids(9), ids(12), many)]) == 0
