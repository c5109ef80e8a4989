from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cqels_opt.errors import StoreError
from cqels_opt.lod import key_search
from cqels_opt.lod.fan_out import fan_out
from cqels_opt.lod.files import write_header
from cqels_opt.lod.index import Index
from cqels_opt.lod.key_search import mix
from cqels_opt.lod.order import is_sorted
from cqels_opt.lod.relation import Ids, Relation, compact, join, join_restrict, join_rows, restrict

Row = tuple[int, ...]
small = st.integers(1, 4)


def bag(relation: Relation) -> Counter[Row]:
    """The rows by their variables' names in order, with multiplicities."""
    result: Counter[Row] = Counter()
    columns = [relation.columns[variable].tolist() for variable in sorted(relation.variables)]
    for row in range(relation.rows):
        result[tuple(column[row] for column in columns)] += int(relation.multiplicities()[row])
    return +result


@st.composite
def relations(draw: st.DrawFn, variables: str = "xyz") -> Relation:
    names = draw(st.lists(st.sampled_from(variables), unique=True, max_size=3))
    rows = draw(st.integers(0, 12))
    columns = {name: np.array(draw(st.lists(small, min_size=rows, max_size=rows)), np.int64) for name in names}
    counts = np.array(draw(st.lists(st.integers(1, 3), min_size=rows, max_size=rows)), np.int64)
    return Relation.build(columns, counts if not names or draw(st.booleans()) else None)


def array(*values: int) -> Ids:
    return np.array(values, np.int64)


def test_a_probe_finds_the_rows_of_each_key() -> None:
    relation = Relation.build({"person": array(7, 3, 7, 9), "paper": array(1, 2, 3, 4)})
    index = relation.index(("person",))
    positions, rows = index.lookup(array(7, 8, 3, 7))
    assert positions.tolist() == [0, 0, 2, 3, 3]
    assert relation.columns["paper"][rows].tolist() == [1, 3, 2, 1, 3]
    assert index.fanout(array(7, 8, 3)).tolist() == [2, 0, 1]
    assert index.contains(array(7, 8)).tolist() == [True, False]
    assert relation.distinct("person") == 3
    assert relation.index(("person",)) is index


ids = st.one_of(
    small, st.integers(-(2**63), 2**63 - 1), st.integers(1 << 60, (1 << 60) + 50), st.integers(3 << 60, (4 << 60) - 1)
)


@given(
    st.lists(ids, min_size=1, max_size=60),
    st.lists(ids, max_size=30),
    st.integers(1, 200),
    st.sampled_from([2, 8, 1 << 23]),
    st.sampled_from([2, 1 << 15]),
)
def test_a_directory_of_keys_is_brute_force(
    keys: list[int], others: list[int], longest: int, most_parts: int, block: int
) -> None:
    """Hashes, small and near numbers, and all of these together, which makes parts with many keys."""
    column, probe = array(*keys), array(*keys[::2], *others)
    index = Index.build(("x",), [column])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_search, "FEW_PROBES", 1)
        patch.setattr(key_search, "LEAST_SEARCHED", 1)
        patch.setattr(key_search, "MOST_PARTS", most_parts)
        patch.setattr(key_search, "LONGEST", longest)
        patch.setattr(key_search, "MOST_FLAGGED", 0)
        patch.setattr(key_search, "BLOCK", block)
        index.search._searches = len(keys)  # probes before: the directory pays
        positions, rows = index.lookup(probe)
        assert index.search.directory is not None or is_sorted(probe) or longest < 60
    found = sorted(zip(positions.tolist(), rows.tolist()))
    assert found == [(i, j) for i, value in enumerate(probe.tolist()) for j, key in enumerate(keys) if key == value]


@given(st.lists(ids, min_size=1, max_size=60), st.lists(ids, max_size=60), st.booleans())
def test_flags_of_keys_are_brute_force(keys: list[int], others: list[int], several: bool) -> None:
    """Indexes of one variable and mixed ones; flags are used while few of the last probes were keys."""
    columns = [array(*keys), array(*keys[::-1])][: 1 + several]
    probes = [array(*keys[::2], *others), array(*keys[::-1][::2], *others)][: 1 + several]
    index = Index.build(("x", "y")[: 1 + several], columns)
    expected = [
        (i, j)
        for i, wanted in enumerate(zip(*map(list, probes)))
        for j, key in enumerate(zip(*map(list, columns)))
        if key == wanted
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_search, "FEW_PROBES", 1)
        for rare in (False, True):
            index.search._probes, index.search._rare = len(keys), rare
            positions, rows = index.lookup(*probes)
            assert sorted(zip(positions.tolist(), rows.tolist())) == expected and (np.diff(positions) >= 0).all()
            assert (index.search.flags is not None or index.search._alike) == rare
            assert index.search._rare == (key_search.RARE * len({*positions.tolist()}) <= len(probes[0]))
        assert len(key_search.KeyFlags(index.keys).possible(index.keys)) == len(index.keys)


def test_flags_that_exclude_nothing_are_not_used_again() -> None:
    """Keys with equal low bits: all probes may be keys."""
    index = Index.build(("x",), [np.arange(1000) << 20])
    index.search._probes, index.search._rare = 1000, True
    probe = np.arange(2000, 4000) << 20
    assert index.lookup(probe)[0].tolist() == [] and index.search._alike
    assert index.search._flags_of(index.keys) is None


@given(relations("xyz"), st.data())
def test_lookup_is_brute_force(relation: Relation, data: st.DataObject) -> None:
    assume(relation.variables)
    on = tuple(data.draw(st.lists(st.sampled_from(relation.variables), unique=True, min_size=1)))
    probes = data.draw(st.lists(st.tuples(*[st.integers(0, 5)] * len(on)), max_size=8))
    keys = [np.array([probe[i] for probe in probes], np.int64) for i in range(len(on))]
    expected = Counter(
        (position, row)
        for position, probe in enumerate(probes)
        for row in range(relation.rows)
        if all(relation.columns[variable][row] == value for variable, value in zip(on, probe))
    )
    for variable in data.draw(st.lists(st.sampled_from(relation.variables), unique=True)):  # others may take these over
        assert relation.index((variable,)).by == 0
    renamed = relation.rename({variable: f"?{variable}" for variable in relation.variables})
    for index in (relation.index(on), renamed.index(tuple(f"?{variable}" for variable in on)), forced_mix(relation, on)):
        positions, rows = index.lookup(*keys)
        assert Counter(zip(positions.tolist(), rows.tolist())) == expected
        assert (positions[1:] >= positions[:-1]).all()
        assert index.fanout(*keys).tolist() == [sum(1 for p, _ in expected if p == position) for position in range(len(probes))]


def forced_mix(relation: Relation, on: tuple[str, ...]) -> Index:
    """A composite index that had to take the mix."""
    columns = [relation.columns[variable] for variable in on]
    if len(on) == 1:
        return Index.build(on, columns)
    single = Index.build(("mixed",), [mix(columns)])
    return Index(on, tuple(columns), None, single.keys, single.starts, single.rows)


def test_a_composite_index_takes_the_selective_column_or_else_the_mix() -> None:
    hub = np.repeat(np.arange(1, 11), 100)
    key = np.arange(1, 1001)
    selective = Relation.build({"a": hub, "b": key})
    single = selective.index(("a",)), selective.index(("b",))
    both = selective.index(("a", "b"))
    assert (both.by, both.keys is single[1].keys, both.search is single[1].search) == (1, True, True)
    assert [found.tolist() for found in both.lookup(array(1, 1, 2), array(1, 101, 101))] == [[0, 2], [0, 100]]
    assert Relation.build({"a": hub, "b": key}).index(("a", "b")).by is None  # no other index to take over
    skewed = Relation.build({"a": hub, "b": np.tile(np.arange(1, 101), 10)})
    single = skewed.index(("a",)), skewed.index(("b",))
    index = skewed.index(("a", "b"))
    assert index.by is None and all(index.keys is not one.keys for one in single)
    positions, rows = index.lookup(array(3, 3, 99), array(7, 101, 7))
    assert positions.tolist() == [0]
    assert rows.tolist() == [206]


def test_a_million_pairs_are_probed_by_both_persons() -> None:
    generator = np.random.default_rng(1)
    left, right = generator.integers(1, 100_000, (2, 1_000_000))
    relation = Relation.build({"person1": left, "person2": right})
    positions, rows = relation.index(("person1", "person2")).lookup(left[:5000], right[:5000])
    assert set(range(5000)) <= set(positions[positions == rows].tolist())
    assert (left[rows] == left[positions]).all() and (right[rows] == right[positions]).all()


def test_wrong_use_is_an_error() -> None:
    relation = Relation.build({"x": array(1), "y": array(2)})
    with pytest.raises(ValueError, match="takes 2 keys"):
        relation.index(("x", "y")).lookup(array(1))
    for on in ((), ("x", "x")):
        with pytest.raises(ValueError, match="different variables"):
            relation.index(on)
    with pytest.raises(ValueError, match="different lengths"):
        Relation.build({"x": array(1), "y": array(1, 2)})
    for names in ({"x": "a", "z": "b"}, {"x": "a"}, {"x": "a", "y": "a"}):
        with pytest.raises(ValueError, match="one to one"):
            relation.rename(names)


def test_fan_outs() -> None:
    measured = fan_out(array(0, 1, 2, 5, 13))
    assert (measured.keys, measured.rows, measured.maximum, measured.squares) == (4, 13, 8, 1 + 1 + 9 + 64)
    assert measured.histogram == (2, 1, 0, 1)
    assert measured.mean == 13 / 4
    assert measured.weighted == 75 / 13
    empty = fan_out(array(0))
    assert (empty.mean, empty.weighted, empty.histogram) == (0.0, 0.0, ())


@given(relations())
def test_compact_merges_equal_rows(relation: Relation) -> None:
    columns, n = compact(relation.columns, relation.n)
    merged = Relation.build(columns, n)
    assert bag(merged) == bag(relation)
    assert merged.rows == len(bag(relation))


@given(relations(), st.data())
def test_restrict_keeps_multiplicities(relation: Relation, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from(relation.variables), unique=True)) if relation.variables else []
    result = restrict(relation, kept)
    assert set(result.variables) == set(kept)
    order = [sorted(relation.variables).index(variable) for variable in sorted(kept)]
    expected: Counter[Row] = Counter()
    for row, count in bag(relation).items():
        expected[tuple(row[i] for i in order)] += count
    assert bag(result) == expected
    assert result.total == relation.total


@given(relations("xyz"), relations("yzw"))
def test_join_is_the_natural_join_of_bags(left: Relation, right: Relation) -> None:
    names = sorted({*left.variables, *right.variables})
    expected: Counter[Row] = Counter()
    for (l_row, l_count), (r_row, r_count) in product(bag(left).items(), bag(right).items()):
        bindings = dict(zip(sorted(left.variables), l_row))
        other = dict(zip(sorted(right.variables), r_row))
        if all(bindings.get(variable, value) == value for variable, value in other.items()):
            merged = bindings | other
            expected[tuple(merged[name] for name in names)] += l_count * r_count
    for result in (join(left, right), join(right, left)):
        assert bag(result) == expected
        assert join_rows(left, right) == result.rows


@given(relations("xyz"), relations("yzw"), st.integers(1, 30), st.data())
def test_join_restrict_is_join_then_restrict(left: Relation, right: Relation, chunk: int, data: st.DataObject) -> None:
    names = sorted({*left.variables, *right.variables})
    kept = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    result = join_restrict(left, right, kept, chunk)
    assert bag(result) == bag(restrict(join(left, right), kept))
    assert result.rows == len(bag(result))


@settings(deadline=None)
@given(st.lists(small, max_size=12), st.lists(small, max_size=12))
def test_the_join_size_of_two_indexes_is_that_of_their_rows(left: list[int], right: list[int]) -> None:
    one, other = (Relation.build({"x": np.array(side, np.int64)}) for side in (left, right))
    expected = sum(a == b for a, b in product(left, right))
    assert one.index(("x",)).join_size(other.index(("x",))) == expected
    assert other.index(("x",)).join_size(one.index(("x",))) == expected == join_rows(one, other)


def test_a_ground_pattern_matches_k_times() -> None:
    three = Relation.build({}, array(3))
    other = Relation.build({"x": array(5, 6)}, array(1, 2))
    assert bag(join(three, other)) == Counter({(5,): 3, (6,): 6})
    assert restrict(other, ()).multiplicities().tolist() == [3]
    assert restrict(Relation.build({"x": array()}), ()).rows == 0
    assert Relation.build({}).rows == 0


@settings(max_examples=25)
@given(relations(), st.data())
def test_a_saved_relation_comes_back_with_its_indexes(
    tmp_path_factory: pytest.TempPathFactory, relation: Relation, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("relation") / "r"
    choice = (
        st.lists(st.sampled_from(relation.variables), unique=True, min_size=1).map(tuple) if relation.variables else st.nothing()
    )
    indexes = data.draw(st.lists(choice, max_size=2)) if relation.variables else []
    relation.save(folder, indexes)
    opened = Relation.open(folder)
    assert (opened.variables, opened.rows, bag(opened)) == (relation.variables, relation.rows, bag(relation))
    assert set(opened.indexes) == set(indexes)
    for on in indexes:
        keys = [relation.columns[variable] for variable in on]
        assert [a.tolist() for a in opened.index(on).lookup(*keys)] == [a.tolist() for a in relation.index(on).lookup(*keys)]
        assert opened.index(on).fan_out == relation.index(on).fan_out
    assert [opened.distinct(v) for v in opened.variables] == [relation.distinct(v) for v in opened.variables]


def test_an_opened_relation_is_mapped_not_read(tmp_path: Path) -> None:
    Relation.build({"x": array(2, 1)}).save(tmp_path / "r", [("x",)])
    opened = Relation.open(tmp_path / "r")
    assert not opened.columns["x"].flags.owndata
    assert not opened.index(("x",)).keys.flags.owndata
    assert not opened.columns["x"].flags.writeable


def test_renaming_keeps_indexes() -> None:
    relation = Relation.build({"s": array(2, 1), "o": array(5, 6)})
    relation.index(("s",))
    renamed = relation.rename({"s": "person", "o": "paper"})
    assert renamed.indexes == (("person",),)
    assert renamed.index(("person",)).keys is relation.index(("s",)).keys
    assert renamed.index(("paper", "person")).columns[0] is relation.columns["o"]
    assert relation.indexes == (("s",), ("o", "s"))
    assert renamed.take(np.array([True, False])).columns["paper"].tolist() == [5]
    assert renamed.take(array(1)).columns["paper"].tolist() == [6]


def damage_missing(folder: Path) -> None:
    (folder / "c0.npy").unlink()


def damage_short(folder: Path) -> None:
    (folder / "i0.keys.npy").write_bytes((folder / "i0.keys.npy").read_bytes()[:-3])


def damage_header(folder: Path) -> None:
    (folder / "relation.json").write_text("{")


def damage_contents(folder: Path) -> None:
    header = json.loads((folder / "relation.json").read_text())
    del header["files"]["c0.npy"], header["checksum"]
    write_header(folder / "relation.json", header)


def damage_rows(folder: Path) -> None:
    header = json.loads((folder / "relation.json").read_text())
    (folder / "relation.json").write_text(json.dumps(header | {"rows": 99}))


def damage_version(folder: Path) -> None:
    header = json.loads((folder / "relation.json").read_text())
    (folder / "relation.json").write_text(json.dumps(header | {"version": 99}))


def damage_array(folder: Path) -> None:
    (folder / "c0.npy").write_bytes(b"x" * (folder / "c0.npy").stat().st_size)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_missing, "missing"),
        (damage_short, "bytes instead of"),
        (damage_header, "damaged"),
        (damage_contents, "damaged"),
        (damage_rows, "checksum"),
        (damage_version, "version 99.*newer"),
        (damage_array, "damaged"),
    ],
)
def test_a_damaged_relation_is_a_clear_error(tmp_path: Path, damage, message: str) -> None:  # type: ignore[no-untyped-def]
    Relation.build({"x": array(2, 1)}).save(tmp_path / "r", [("x",)])
    damage(tmp_path / "r")
    with pytest.raises(StoreError, match=message):
        Relation.open(tmp_path / "r")


def test_an_absent_relation_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no relation\.json"):
        Relation.open(tmp_path / "nothing")


@pytest.mark.parametrize("few", [1, 10**9])
@pytest.mark.parametrize("sorted_from", [1, 10**9])
def test_many_probes_and_few_find_the_same(monkeypatch: pytest.MonkeyPatch, sorted_from: int, few: int) -> None:
    """Probes are sorted where they are many: what they find, and in which order, is the same."""
    monkeypatch.setattr(key_search, "FEW_PROBES", few)
    monkeypatch.setattr(key_search, "SORTED_PROBES", sorted_from)
    draw = np.random.default_rng(3)
    for keys in (0, 1, 5, 300):
        column = draw.integers(0, max(1, keys), 2 * keys)
        index = Index.build(("x",), [column])
        for probe in (drawn := draw.integers(-2, keys + 3, 200)), np.sort(drawn):
            expected = [(i, row) for i, key in enumerate(probe.tolist()) for row in np.flatnonzero(column == key).tolist()]
            assert list(zip(*(found.tolist() for found in index.lookup(probe)))) == expected
            assert index.fanout(probe).tolist() == [int((column == key).sum()) for key in probe.tolist()]


def test_whether_an_index_sorts_its_probes() -> None:
    """Few probes are not sorted, many are until there is a directory of the keys."""
    keys = np.sort(np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 20_000))
    search = key_search.KeySearch()
    assert not search.sorts(keys, key_search.SORTED_PROBES - 1) and search.sorts(keys, key_search.SORTED_PROBES)
    assert not search.sorts(keys, len(keys))  # the first look-up of so many makes the directory
    search.find(keys, keys[::-1])
    assert search.directory is not None and not search.sorts(keys, key_search.SORTED_PROBES)
    assert key_search.KeySearch(most=100).sorts(keys, len(keys))  # too many keys for a directory


@given(st.lists(st.lists(st.tuples(ids, small), max_size=12), min_size=1, max_size=4), st.integers(0, 12), st.booleans())
def test_a_merged_index_is_the_index_of_all_rows(parts: list[list[tuple[int, int]]], first: int, several: bool) -> None:
    """Also without the first rows of the first part, which may be all of them."""
    on, first = ("x", "y")[: 1 + several], min(first, len(parts[0]))
    columns = [[array(*(row[place] for row in part)) for place in range(len(on))] for part in parts]
    whole = [np.concatenate(of_one)[first:] for of_one in zip(*columns)]
    merged, built = Index.merged([Index.build(on, of_part) for of_part in columns], whole, first), Index.build(on, whole)
    rows = np.arange(len(whole[0])) if built.rows is None else built.rows
    assert (merged.on, merged.by, merged.keys.tolist()) == (built.on, built.by, built.keys.tolist())
    assert (merged.starts.tolist(), merged.rows.tolist() if merged.rows is not None else None) == (
        built.starts.tolist(),
        rows.tolist(),
    )
