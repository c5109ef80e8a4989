"""Joins of rows with intervals, against the definitions instant by instant."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.lod.relation import Relation
from cqels_opt.operators import interval_join as joining
from cqels_opt.operators.interval_join import Indexed, as_rows, compatible_pairs, covered, disjoint, join
from cqels_opt.operators.rows import Rows, concat, empty, group_ids, is_nameable
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

from .interval_rows import HORIZON, Plain, plain_rows, rows_of, snapshots

XYZ = ("x", "y", "z")


def compatible(a: dict[str, int], b: dict[str, int]) -> bool:
    return all(a[v] == b[v] for v in a.keys() & b.keys() if a[v] and b[v])


def mappings(variables: tuple[str, ...], plain: list[Plain]) -> list[tuple[dict[str, int], Plain]]:
    return [(dict(zip(variables, row[0])), row) for row in plain]


@given(plain_rows(2, unbound=True), plain_rows(2, unbound=True))
def test_join_by_definition(left: list[Plain], right: list[Plain]) -> None:
    found = snapshots(join(rows_of("xy", left), rows_of("yz", right)), XYZ)
    expected: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for a, (_, s1, e1, n1) in mappings(("x", "y"), left):
        for b, (_, s2, e2, n2) in mappings(("y", "z"), right):
            if compatible(a, b):
                merged = {v: a.get(v, 0) or b.get(v, 0) for v in XYZ}
                for at in range(max(s1, s2), min(e1, e2)):
                    expected[at, tuple(merged[v] for v in XYZ)] += n1 * n2
    assert found == expected


@given(plain_rows(2, unbound=True), plain_rows(2, unbound=True), st.sampled_from([None, (), ("x",), ("y",)]))
def test_compatible_pairs_by_definition(left: list[Plain], right: list[Plain], apart: tuple[str, ...] | None) -> None:
    a, b = compatible_pairs(rows_of("xy", left), rows_of("yz", right), apart)
    found = sorted(zip(a.tolist(), b.tolist()))
    expected = [
        (i, j)
        for i, (one, (_, s1, e1, _)) in enumerate(mappings(("x", "y"), left))
        for j, (other, (_, s2, e2, _)) in enumerate(mappings(("y", "z"), right))
        if compatible(one, other)
        and max(s1, s2) < min(e1, e2)
        and (apart is None or ("y" not in apart and one["y"] and other["y"]))
    ]
    assert found == expected


def test_a_join_multiplies_multiplicities_and_intersects_intervals() -> None:
    left, right = rows_of("x", [((1,), 0, 4, 2)]), rows_of("xy", [((1, 7), 2, 6, 3), ((1, 8), 4, 6, 1)])
    found = join(left, right)
    assert (found.columns["y"].tolist(), found.start.tolist(), found.end.tolist(), found.n.tolist()) == ([7], [2], [4], [6])


def test_hidden_columns_never_join_and_the_earlier_rank_counts() -> None:
    left = rows_of(["x", "#rank:s"], [((1, 5), 0, 4, 1)])
    right = rows_of(["x", "#rank:s"], [((1, 9), 0, 4, 1)])
    assert join(left, right).columns["#rank:s"].tolist() == [5]


@given(plain_rows(1, most=5), plain_rows(1, most=8))
def test_covered_splits_each_row_where_it_has_a_partner(left: list[Plain], right: list[Plain]) -> None:
    rows, others = rows_of("x", left), rows_of("x", right)
    a, b = compatible_pairs(rows, others)
    inside, outside = covered(rows, a, np.maximum(rows.start[a], others.start[b]), np.minimum(rows.end[a], others.end[b]))
    with_partner: Counter[tuple[int, tuple[int, ...]]] = Counter()
    alone: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for value, start, end, n in left:
        for at in range(start, end):
            seen = any(v == value and s <= at < e for v, s, e, _ in right)
            (with_partner if seen else alone)[at, value] += n
    assert snapshots(inside, "x") == with_partner
    assert snapshots(outside, "x") == alone
    assert (inside.start < inside.end).all()
    assert (outside.start < outside.end).all()


@given(plain_rows(1, most=5), plain_rows(1, most=8), st.sampled_from([10**12, 1 << 58]))
def test_covered_is_the_same_at_any_scale_of_time(left: list[Plain], right: list[Plain], scale: int) -> None:
    """Twenty rows with times this large pass 64 bits, as a million do in a window of a hundred years."""
    rows, others = rows_of("x", left * 4), rows_of("x", right)
    a, b = compatible_pairs(rows, others)
    start, end = np.maximum(rows.start[a], others.start[b]), np.minimum(rows.end[a], others.end[b])
    large = rows.with_interval(rows.start * scale - 10**12, rows.end * scale - 10**12)
    small_parts, large_parts = covered(rows, a, start, end), covered(large, a, start * scale - 10**12, end * scale - 10**12)
    for small, found in zip(small_parts, large_parts):
        assert found.columns["x"].tolist() == small.columns["x"].tolist()
        assert found.start.tolist() == (small.start * scale - 10**12).tolist()
        assert found.end.tolist() == (small.end * scale - 10**12).tolist()


def test_covered_without_partners() -> None:
    rows = rows_of("x", [((1,), 0, 3, 1)])
    none = np.empty(0, np.int64)
    inside, outside = covered(rows, none, none, none)
    assert (len(inside), len(outside)) == (0, 1)


def test_touching_partners_cover_as_one() -> None:
    rows = rows_of("x", [((1,), 0, 6, 1)])
    owner = np.zeros(2, np.int64)
    inside, outside = covered(rows, owner, np.array([1, 3]), np.array([3, 5]))
    assert (inside.start.tolist(), inside.end.tolist()) == ([1], [5])
    assert sorted(zip(outside.start.tolist(), outside.end.tolist())) == [(0, 1), (5, 6)]


@given(plain_rows(2, unbound=True))
def test_disjoint_has_each_row_once_at_a_time(plain: list[Plain]) -> None:
    rows = rows_of("xy", plain)
    once = snapshots(disjoint(rows), "xy")
    assert once == Counter(dict.fromkeys(snapshots(rows, "xy"), 1))


# ------------------------------------------------------------------ probes
@given(plain_rows(2), plain_rows(2), st.sampled_from([(), ("y",), ("x", "y")]))
def test_a_probe_is_a_join(left: list[Plain], right: list[Plain], on: tuple[str, ...]) -> None:
    names = {(): "zw", ("y",): "yz", ("x", "y"): "xy"}[on]
    one, other = rows_of("xy", left), rows_of(names, right)
    found = concat([empty(["x", "y", *names]), *Indexed.of_rows(other).probe(one, list(on))])
    variables = tuple(dict.fromkeys(("x", "y", *names)))
    assert snapshots(found, variables) == snapshots(join(one, other), variables)


@given(plain_rows(2), plain_rows(2))
def test_a_probe_in_pieces_is_the_same(left: list[Plain], right: list[Plain]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for on, names in (([], "zw"), (["y"], "yz"), (["x", "y"], "xy")):
            one, other = rows_of("xy", left), rows_of(names, right)
            whole = concat([empty(), *Indexed.of_rows(other).probe(one, on)])
            patch.setattr("cqels_opt.operators.rows.CHUNK", 2)
            patch.setattr(joining, "PROBES", 1)
            parts = list(Indexed.of_rows(other).probe(one, on))
            patch.undo()
            variables = tuple(dict.fromkeys(("x", "y", *names)))
            assert snapshots(concat([empty(), *parts]), variables) == snapshots(whole, variables)


def test_a_static_relation_is_valid_always_and_counts() -> None:
    relation = Relation.build({"s": np.array([1, 1, 2]), "o": np.array([4, 5, 6])}, np.array([2, 1, 1]))
    rows = as_rows(relation, ("x", "y"))
    assert rows.columns["y"].tolist() == [4, 5, 6]
    assert set(rows.start.tolist()) == {int(BEFORE_TIME)}
    assert set(rows.end.tolist()) == {int(FOREVER)}
    (found,) = Indexed.of_static(relation, ("x", "y")).probe(rows_of("x", [((1,), 2, 5, 3)]), ["x"])
    assert sorted(zip(found.columns["y"].tolist(), found.n.tolist())) == [(4, 6), (5, 3)]
    assert (found.start.tolist(), found.end.tolist()) == ([2, 2], [5, 5])


# ------------------------------------------------------------------ rows
@given(plain_rows(3, unbound=True), st.integers(0, 3))
def test_groups_number_equal_rows_alike(plain: list[Plain], width: int) -> None:
    rows = rows_of("xyz", plain)
    columns = [rows.columns[v] for v in "xyz"[:width]]
    group, first = group_ids(columns, len(rows))
    keys = [tuple(row[0][:width]) for row in plain]
    assert len(first) == len(set(keys))
    for i, key in enumerate(keys):
        assert keys[first[group[i]]] == key
    assert len({(g, k) for g, k in zip(group.tolist(), keys)}) == len(first)


def test_concat_fills_what_a_part_lacks() -> None:
    found = concat([rows_of("x", [((1,), 0, 1, 1)]), rows_of("y", [((2,), 0, HORIZON, 1)]), empty("z")])
    assert {v: c.tolist() for v, c in found.columns.items()} == {"x": [1, 0], "y": [0, 2]}
    assert len(concat([])) == 0
    assert isinstance(concat([empty("xy")]), Rows)


def test_with_interval_drops_the_empty_ones() -> None:
    rows = rows_of("x", [((1,), 0, 3, 1), ((2,), 0, 3, 1)])
    assert rows.with_interval(np.array([2, 3]), np.array([3, 3])).columns["x"].tolist() == [1]


def test_a_hash_hangs_on_every_column() -> None:
    rows = rows_of("xy", [((1, 2), 0, 1, 1), ((2, 1), 0, 1, 1), ((1, 2), 3, 4, 2)])
    hashed = rows.mixed("xy").tolist()
    assert hashed[0] == hashed[2] != hashed[1]


def test_names_that_a_query_can_write() -> None:
    assert [v for v in ("x", "#order", ".agg0", "_:b", "x~1") if is_nameable(v)] == ["x"]
