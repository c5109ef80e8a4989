"""Multiway joins against the definition of joins, and the candidates that they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.lod import key_search
from cqels_opt.lod.key_search import SORTED_PROBES
from cqels_opt.operators import multiway_join as multiway_room
from cqels_opt.operators import rows as row_sets
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.multiway_join import JoinedRelation, in_order, multiway_join
from cqels_opt.operators.rows import Ints, Rows, concat, empty

from .interval_rows import HORIZON, Plain, plain_rows, rows_of, snapshots

SHAPES = (("abx", "bc", "ca"), ("abz", "acd", "bcd"), ("abdx", "ac", "bc", "dc"), ("abde", "abc", "bdc", "ec"))
"""The variables of the left side, and those of the relations, which all bind the last ones."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[str, ...], list[Plain], list[list[list[Plain]]]]:
    """A shape, the left rows, and the rows of each index of each relation."""
    shape = draw(st.sampled_from(SHAPES))
    left = draw(plain_rows(len(shape[0]), values=2))
    return shape, left, [draw(st.lists(plain_rows(len(names), values=2), max_size=3)) for names in shape[1:]]


def joined(shape: Sequence[str], left: Rows, sides: Sequence[Sequence[Indexed]]) -> tuple[Rows, int]:
    """The rows of the multiway join, and its candidates."""
    new = frozenset.intersection(*map(frozenset, shape[1:])) - set(shape[0])
    relations = [
        JoinedRelation(indexes, sorted(set(names) & set(shape[0])), sorted(set(names) & {*shape[0], *new}))
        for names, indexes in zip(shape[1:], sides)
    ]
    counted: list[int] = []
    found = list(multiway_join(left, relations, counted.append))
    return concat(found) if found else empty(), sum(counted)


def by_definition(shape: Sequence[str], parts: Sequence[Sequence[Plain]]) -> Counter[tuple[int, tuple[int, ...]]]:
    """Every combination of rows that agree, at each instant at which all of them are valid."""
    names = sorted(set("".join(shape)))
    expected: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for combination in product(*parts):
        values: dict[str, int] = {}
        if all(values.setdefault(v, x) == x for of, row in zip(shape, combination) for v, x in zip(of, row[0])):
            n = int(np.prod([row[3] for row in combination]))
            for at in range(max(row[1] for row in combination), min(row[2] for row in combination)):
                expected[at, tuple(values[v] for v in names)] += n
    return expected


@pytest.mark.long
@settings(max_examples=400, deadline=None)
@given(cases(), st.sampled_from([2, 1 << 20]), st.sampled_from([1, 1000]))
def test_a_multiway_join_by_definition(
    case: tuple[tuple[str, ...], list[Plain], list[list[list[Plain]]]], chunk: int, sorted_from: int
) -> None:
    """Also if rows are sorted first, for one variable of several."""
    shape, left, relations = case
    sides = [[Indexed.of_rows(rows_of(names, plain)) for plain in parts if plain] for names, parts in zip(shape[1:], relations)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sets, "CHUNK", chunk)
        for room in (key_search, multiway_room):
            patch.setattr(room, "SORTED_PROBES", sorted_from)
        found, candidates = joined(shape, rows_of(shape[0], left), sides)
    everything = [left, *([row for part in parts for row in part] for parts in relations)]
    assert snapshots(found, sorted(set("".join(shape)))) == by_definition(shape, everything)
    fans = [
        [sum(all(dict(zip(shape[0], row[0])).get(v, x) == x for v, x in zip(names, other[0])) for other in part) for row in left]
        for names, part in zip(shape[1:], everything[1:])
    ]
    assert candidates == sum(map(min, zip(*fans)))


def test_hidden_columns_never_join_and_the_earliest_rank_counts() -> None:
    shape, rank = ("ab", "bc", "ca"), "#rank:s"
    left = rows_of(["a", "b", rank], [((1, 2, 7), 0, 4, 1)])
    sides = [
        [Indexed.of_rows(rows_of(["b", "c", rank], [((2, 3, 5), 0, 4, 2)]))],
        [Indexed.of_rows(rows_of("ca", [((3, 1), 1, 9, 3)]))],
    ]
    found, _ = joined(shape, left, sides)
    assert {v: c.tolist() for v, c in found.columns.items()} == {"a": [1], "b": [2], rank: [5], "c": [3]}
    assert (found.start.tolist(), found.end.tolist(), found.n.tolist()) == ([1], [4], [6])


def test_each_row_reads_the_relation_in_which_it_has_fewest_matches() -> None:
    """Two hubs: either relation alone would be expanded by all edges of one of them."""
    many = 1000
    to_hub = [((1, 10 + i), 0, 4, 1) for i in range(many)]  # (b, c)
    from_hub = [((10 + i, 2), 0, 4, 1) for i in range(many)]  # (c, a)
    bc, ca = [*to_hub, ((5, 11), 0, 4, 1)], [*from_hub, ((11, 6), 0, 4, 1)]
    left = rows_of("ab", [((6, 1), 0, 4, 1), ((2, 5), 0, 4, 1)])
    found, candidates = joined(
        ("ab", "bc", "ca"), left, [[Indexed.of_rows(rows_of("bc", bc))], [Indexed.of_rows(rows_of("ca", ca))]]
    )
    assert sorted(zip(*(found.columns[v].tolist() for v in "abc"))) == [(2, 5, 11), (6, 1, 11)]
    assert candidates == 2


def rows_of_values(values: Ints) -> Rows:
    n = len(values)
    return Rows({"x": values}, np.zeros(n, np.int64), np.full(n, HORIZON), np.ones(n, np.int64))


def test_rows_are_sorted_once_for_indexes_that_would_each_sort_them() -> None:
    """Two indexes by binary search: sorted. One of them with a directory: only the other one sorts."""
    random = np.random.default_rng(1)
    sides = [Indexed.of_rows(rows_of_values(random.integers(0, 1 << 60, 20_000))) for _ in range(2)]
    rows = rows_of_values(random.integers(0, 1 << 60, SORTED_PROBES))
    ordered = in_order(rows, sides, ["x"])
    assert ordered.columns["x"].tolist() == sorted(rows.columns["x"].tolist())
    list(sides[1].probe(rows_of_values(random.integers(0, 1 << 60, 20_000)), ["x"]))  # pays for its directory
    assert in_order(rows, sides, ["x"]) is rows
    assert in_order(rows, sides[:1], ["x"]) is rows and in_order(rows, sides, []) is rows
