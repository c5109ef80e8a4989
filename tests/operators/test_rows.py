"""Rows whose columns are read late have the values of rows whose columns are copied at once."""

from __future__ import annotations

import random
import weakref

import numpy as np
import pytest

from cqels_opt.lod import index as index_module
from cqels_opt.lod import key_search
from cqels_opt.lod.index import Runs
from cqels_opt.lod.relation import Relation
from cqels_opt.operators import rows as rows_module
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import Late, Rows, concat

Table = dict[str, np.ndarray]


def rows_of(rng: random.Random, size: int) -> Rows:
    def column() -> np.ndarray:
        return np.array([rng.randrange(100) for _ in range(size)], np.int64)

    start = column()
    return Rows({"a": column(), "b": column()}, start, start + column() % 5, column() + 1)


def values(rows: Rows) -> Table:
    return {**rows.columns, "#start": rows.start, "#end": rows.end, "#n": rows.n}


def at(table: Table, places: np.ndarray) -> Table:
    return {name: column[places] for name, column in table.items()}


def same(one: Table, other: Table) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(column, other[name]) for name, column in one.items())


@pytest.mark.parametrize("seed", range(200))
def test_late_columns_are_the_columns(seed: int) -> None:
    """Whatever is taken of rows, in any order, and whichever columns are read in between."""
    rng = random.Random(seed)
    rows = rows_of(rng, rng.randrange(1, 30))
    wanted = values(rows)
    for _ in range(rng.randrange(1, 8)):
        size = len(rows)
        if rng.random() < 0.3:
            assert np.array_equal(rows.columns[name := rng.choice([*rows.columns])], wanted[name])
        if rng.random() < 0.3:
            assert np.array_equal(rows.start, wanted["#start"])
        match rng.randrange(6):
            case 0:
                places = np.array([rng.randrange(size) for _ in range(2 * size if size < 200 else size)], np.int64)
                rows, wanted = rows.multiplied(places), at(wanted, places)
            case 1:
                places = np.flatnonzero([rng.random() < 0.7 for _ in range(size)])
                rows, wanted = rows.take(places), at(wanted, places)
            case 2:
                mask = np.array([rng.random() < 0.7 for _ in range(size)], bool)
                rows, wanted = rows.take(mask), at(wanted, np.flatnonzero(mask))
            case 3:
                first, stop = sorted((rng.randrange(size + 1), rng.randrange(size + 1)))
                rows, wanted = rows.between(first, stop), at(wanted, np.arange(first, stop))
            case 4:
                rows = rows.with_interval(rows.start, rows.end)
                wanted = at(wanted, np.flatnonzero(wanted["#start"] < wanted["#end"]))
            case _:
                column = np.arange(size)
                rows, wanted = rows.with_column("c", column), {**wanted, "c": column}
        if not len(rows):
            break
    assert len(rows) == len(wanted["a"])
    kept = [v for v in ("b", "a") if rng.random() < 0.8]
    assert same(values(rows.only(kept)), {name: wanted[name] for name in (*kept, "#start", "#end", "#n")})
    assert same(values(rows), wanted)
    assert same(values(concat([rows, rows])), {name: np.concatenate([column, column]) for name, column in wanted.items()})


def test_a_column_that_nobody_reads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join reads the columns that it compares; the others are read for the rows that the joins after it leave."""
    read: list[int] = []
    original = Late.values
    monkeypatch.setattr(Late, "values", lambda self: (read.append(len(self)), original(self))[1])
    rng = random.Random(1)
    left = Rows({"x": np.arange(10), "other": np.arange(10)}, np.zeros(10, np.int64), np.full(10, 9), np.ones(10, np.int64))
    many = Indexed.of_static(Relation.build({"x": np.repeat(np.arange(10), 100), "y": np.arange(1000)}), ["x", "y"])
    few = Indexed.of_static(Relation.build({"y": np.array(rng.sample(range(1000), 7))}), ["y"])
    joined = concat([*many.probe(left, ["x"])])
    assert len(joined) == 1000 and read == []
    found = concat([*few.probe(joined, ["y"])])
    assert read == [1000]
    assert sorted(found.columns["other"].tolist()) == sorted(y // 100 for y in found.columns["y"].tolist())
    assert read == [1000, 7, 7]


def test_what_a_column_was_taken_from_is_not_kept_once_it_was_read() -> None:
    column = np.arange(1000)
    gone, late = weakref.ref(column), Late(column, np.array([1, 999]))
    del column
    assert gone() is not None and len(late) == 2
    assert late.values().tolist() == [1, 999] and gone() is None
    assert late.take(np.array([1, 1]), {}).values().tolist() == [999, 999]


def test_the_runs_of_a_window_share_the_mixed_keys_of_the_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = key_search.mix
    monkeypatch.setattr(key_search, "mix", lambda columns: (made.append(len(columns[0])), original(columns))[1])
    rng = random.Random(2)
    left = rows_of(rng, 50)
    sides = [Indexed.of_rows(rows_of(rng, 80)) for _ in range(3)]
    together = [concat([*side.probe(left, ["a", "b"])]) for side in sides]
    assert made == [50]
    apart = [concat([*side.probe(left.take(np.arange(50)), ["a", "b"])]) for side in sides]
    assert all(same(values(one), values(other)) for one, other in zip(together, apart))
    assert [side.fan_out(left, ["a", "b"]).sum() for side in sides] == [
        sum((a, b) == pair for pair in zip(left.columns["a"].tolist(), left.columns["b"].tolist()) for a, b in stored(side))
        for side in sides
    ]


def stored(side: Indexed) -> list[tuple[int, int]]:
    return [*zip(side.relation.columns["a"].tolist(), side.relation.columns["b"].tolist())]


@pytest.mark.parametrize("seed", range(20))
def test_a_probe_on_several_variables_makes_a_bounded_number_of_pairs_at_a_time(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bushy part of the rows of a window may have a key many times, with other intervals."""
    rng = random.Random(seed)
    monkeypatch.setattr(rows_module, "CHUNK", 40)
    monkeypatch.setattr(index_module, "CANDIDATES", 40)
    keys = np.array([rng.randrange(3) for _ in range(90)], np.int64)
    right = Rows({"a": keys, "b": keys + 1}, keys, keys + 9, np.ones(90, np.int64))
    left = rows_of(rng, 60)
    left = Rows(
        {"a": left.columns["a"] % 4, "b": left.columns["a"] % 4 + 1, "c": left.columns["b"]}, left.start % 9, left.end, left.n
    )
    side = Indexed.of_rows(right)
    made: list[int] = []
    original = Runs.pairs
    monkeypatch.setattr(
        Runs, "pairs", lambda self, some=slice(None): (made.append(int(self.counts[some].sum())), original(self, some))[1]
    )
    found = concat([*side.probe(left, ["a", "b"])])
    a, b = np.nonzero((left.columns["a"][:, None] == keys) & (left.columns["b"][:, None] == keys + 1))
    start, end = np.maximum(left.start[a], right.start[b]), np.minimum(left.end[a], right.end[b])
    assert sorted(zip(found.columns["c"].tolist(), found.start.tolist(), found.end.tolist())) == sorted(
        row for row in zip(left.columns["c"][a].tolist(), start.tolist(), end.tolist()) if row[1] < row[2]
    )
    assert side.fan_out(left, ["a", "b"]).tolist() == np.bincount(a, minlength=60).tolist()
    assert sum(made) == 2 * len(a) and max(made) <= max(40, int(np.bincount(keys).max()))
