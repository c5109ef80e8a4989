"""Rows that have become equal are one row with their multiplicities: the same bag."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from local_runs import Cut, World, register

from cqels_opt.errors import RunError
from cqels_opt.operators import eager_aggregation
from cqels_opt.operators.eager_aggregation import coalesced
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import RANK, Ints, Rows
from cqels_opt.verify import Element

EX, XSD = "http://ex.org/", "http://www.w3.org/2001/XMLSchema#"
QUERY = f"""PREFIX : <{EX}> SELECT ?x (COUNT(*) AS ?n) (SUM(?v) AS ?sum)
FROM NAMED :S [RANGE 40s SLIDE 10s] AS ?s FROM NAMED :T [RANGE 40s SLIDE 10s] AS ?t FROM NAMED :U [RANGE 40s SLIDE 10s] AS ?u
{{ GRAPH ?s {{ ?a :at ?x }} GRAPH ?t {{ ?b :in ?y }} GRAPH ?u {{ ?c :reads ?v }} }} GROUP BY ?x"""


def bag(rows: Rows, names: list[str]) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for *row, n in zip(*(rows.columns[name].tolist() for name in names), rows.start.tolist(), rows.end.tolist(), rows.n.tolist()):
        found[tuple(row)] += n
    return found


def some(length: int, places: int) -> Rows:
    rng = np.random.default_rng(3)
    columns = {name: np.sort(rng.integers(1, places, length)) for name in ("x", "y", f"{RANK}s")}
    return Rows(columns | {"o": np.arange(length)}, columns["x"], columns["x"] + columns["y"], rng.integers(1, 9, length))


def test_the_same_bag_in_fewer_rows() -> None:
    rows = some(5_000, 8)
    found = coalesced(rows, {"x", "y"})
    assert set(found.columns) == {"x", "y", f"{RANK}s"}  # what is hidden stays
    assert len(found) < 100
    assert bag(found, [*found.columns]) == bag(rows, [*found.columns])


@pytest.mark.parametrize(
    ("length", "places", "read"), [(5_000, 8, "xyo"), (5_000, 1_000_000, "xy"), (2_000, 8, "xy"), (0, 8, "xy")]
)
def test_rows_are_left_where_all_is_read_or_few_are_equal_or_there_are_few(length: int, places: int, read: str) -> None:
    rows = some(length, places)
    found = coalesced(rows, set(read))
    assert len(found) == length
    assert set(found.columns) == {*read, f"{RANK}s"}


def test_a_product_of_windows_that_is_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three windows of k elements have k cubed rows together, most of which are never made; what is counted and added up is of all."""
    times = [1_000_000 + 250 * i for i in range(260)]
    readings = [Decimal(f"{i % 3}.123456789012") for i in range(len(times))]  # too long for sums in 64 bits

    def stream(p: str, values: list[str]) -> list[list[Element]]:
        return [[Element(t, ((f"<{EX}{p}{i}>", f"<{EX}{p}>", values[i]),)) for i, t in enumerate(times)]]

    streams = {
        f"{EX}S": stream("at", [f"<{EX}x>"] * len(times)),
        f"{EX}T": stream("in", [f"<{EX}y{i % 40}>" for i in range(len(times))]),
        f"{EX}U": stream("reads", [f'"{v}"^^<{XSD}decimal>' for v in readings]),
    }
    query = register(QUERY, World(streams, [], {}), tmp_path)
    monkeypatch.setattr(eager_aggregation, "_alike", seen := Seen())
    got = query.run(Cut("5000ms"))
    assert seen.before > 20 * seen.after
    assert len(got.answers) == 7
    for time, _, row in got.answers:
        inside = [v for t, v in zip(times, readings) if time - 40_000 < t <= time]
        values = {name: Decimal(value.split('"')[1]) for name, value in dict(row).items() if name != "x"}
        assert values == {"n": len(inside) ** 3, "sum": len(inside) ** 2 * sum(inside)}


class Seen:
    """Counts the rows that are grouped, and those that are left."""

    def __init__(self) -> None:
        self.before = self.after = 0
        self.plain = eager_aggregation._alike

    def __call__(self, rows: Rows) -> tuple[Ints, Ints]:
        found = self.plain(rows)
        if len(rows) > eager_aggregation.FEW:
            self.before, self.after = self.before + len(rows), self.after + len(found[1])
        return found


def test_more_equal_rows_than_64_bits_can_count_are_refused() -> None:
    rows = some(5_000, 3)
    many = Rows(rows.columns, rows.start, rows.end, np.full(len(rows), 1 << 50))
    assert sum(coalesced(many, {"x", "y"}).n.tolist()) == len(rows) << 50
    many = Rows(rows.columns, rows.start, rows.end, np.full(len(rows), 1 << 55))
    with pytest.raises(RunError, match="more than 2\\^62 rows"):
        coalesced(many, {"x", "y"})
    left = Rows({"x": np.array([1])}, np.array([0]), np.array([9]), np.array([1 << 40]))
    right = Indexed.of_rows(Rows({"y": np.array([1])}, np.array([0]), np.array([9]), np.array([1 << 30])))
    with pytest.raises(RunError, match="more than 2\\^62 rows"):
        list(right.probe(left, []))
