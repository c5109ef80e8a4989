"""Size bounds against brute force: never below the rows of a join, and as small as the formulas say in worked examples."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import pytest

from cqels_opt.bench.shapes import SHAPES, relation
from cqels_opt.plans import KnownStatistics, Optimizer, QueryGraph, size_bounds
from cqels_opt.plans.relation_set import RelationSet, members
from cqels_opt.plans.size_bounds import Norms, SizeBounds

from .graphs import random_graph, unit

Row = Mapping[str, int]
Rows = Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class Counted:
    """Degree statistics from rows; ``hidden`` relations are unknown, and with ``met`` the delta's values are looked up."""

    rows: Rows
    met: bool = True
    hidden: frozenset[str] = frozenset()

    def most_rows(self, relation: str) -> float | None:
        return None if relation in self.hidden else float(len(self.rows[relation]))

    def degree_norms(self, relation: str, variable: str) -> Norms | None:
        return None if relation in self.hidden else norms(degrees(self.rows[relation], variable))

    def static_join_rows(self, left: str, right: str, variable: str) -> float | None:
        return None

    def delta_norms(self, source: str, relation: str, variable: str) -> tuple[float, Norms] | None:
        if not self.met or relation in self.hidden:
            return None
        own, others = degrees(self.rows[source], variable), degrees(self.rows[relation], variable)
        return float(sum(own[c] * others[c] for c in own)), norms(Counter({c: others[c] for c in own}))


def degrees(rows: Sequence[Row], variable: str) -> Counter[int]:
    return Counter(row[variable] for row in rows)


def norms(found: Counter[int]) -> Norms:
    return float(sum(found.values())), math.sqrt(sum(n * n for n in found.values())), float(max(found.values(), default=0))


def joined(graph: QueryGraph, rows: Rows, relations: int) -> int:
    """The rows of a join, by trying all combinations; an OPTIONAL keeps a left row that has no match."""
    inner = [graph.relations[i] for i in members(relations & ~graph.units)]
    left: list[Row] = []
    for combination in product(*(rows[r.name] for r in inner)):
        together: dict[str, int] = {}
        if all(together.setdefault(x, row[x]) == row[x] for row in combination for x in row):
            left.append(together)
    for optional in [graph.relations[i] for i in members(relations & graph.units) if graph.relations[i].kind == "optional"]:
        grown: list[Row] = []
        for row in left:
            matches = [other for other in rows[optional.name] if all(row[x] == other[x] for x in optional.joined_on)]
            grown += [{**row, **other} for other in matches] or [row]
        left = grown
    return len(left)


def random_rows(rng: random.Random, graph: QueryGraph) -> Rows:
    """A few skewed rows of each relation."""

    def value() -> int:
        return min(rng.randint(0, 4), rng.randint(0, 4))

    return {r.name: [{x: value() for x in sorted(r.variables)} for _ in range(rng.randint(0, 6))] for r in graph.relations}


@pytest.mark.parametrize("seed", range(1500))
def test_a_bound_is_never_below_the_rows_of_a_join(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second seed bounds sets of three and more relations as those of many."""
    if seed % 2:
        monkeypatch.setattr(size_bounds, "ALL_STARTS", 2)
    rng = random.Random(seed)
    graph = random_graph(rng, 4)
    if rng.random() < 0.3:
        graph = QueryGraph([*graph.relations, unit("o", "optional", rng.choice(sorted(graph.bound(graph.everything))), "new")])
    rows = random_rows(rng, graph)
    hidden = frozenset(r.name for r in graph.relations if rng.random() < 0.1)
    sources = [r.name for r in graph.relations if r.kind == "inner"]
    bounds = SizeBounds(graph, rng.choice(sources), Counted(rows, rng.random() < 0.7, hidden))
    for relations in range(1, graph.everything + 1):
        if relations & ~graph.units and all(
            graph.relations[i].requires <= graph.bound(relations & ~graph.units) for i in members(relations & graph.units)
        ):
            assert joined(graph, rows, relations) <= bounds.rows(relations)


@pytest.mark.parametrize("shape", ["star", "chain", "clique"])
def test_the_bounds_of_a_long_plan_take_few_steps(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """About as many as the plan has pairs of relations, not their third or fourth power."""
    entered, steps = SizeBounds._entered, Counter[int]()

    def counted(self: SizeBounds, i: int, bound: frozenset[str], inner: RelationSet) -> float:
        steps[inner.bit_count()] += 1
        return entered(self, i, bound, inner)

    monkeypatch.setattr(SizeBounds, "_entered", counted)
    graph = SHAPES[shape](16)
    rows = random_rows(random.Random(1), graph)
    bounds = SizeBounds(graph, graph.relations[0].name, Counted(rows))
    for count in range(1, 17):
        bounds.rows((1 << count) - 1)
    assert max(steps.values()) <= 3 * 16 * 16


CHAIN = QueryGraph([relation("d", "x", True), relation("r", "x y"), relation("s", "y z")])


def spread(values: Sequence[int], name: str, other: str) -> list[Row]:
    return [{name: value, other: number} for number, value in enumerate(values)]


def test_the_worked_example_of_the_guarantees() -> None:
    """Two rows of the delta meet 3 + 1 rows of r; each value of y has at most two rows in s."""
    rows: Rows = {"d": [{"x": 1}, {"x": 2}], "r": spread([1, 1, 1, 2, 9, 9, 9, 9], "x", "y"), "s": spread([0, 0, 1, 5], "y", "z")}
    bounds = SizeBounds(CHAIN, "d", Counted(rows))
    assert bounds.rows(CHAIN.set_of(["d", "r"])) == 4
    assert bounds.rows(CHAIN.set_of(["r", "s"])) == 4  # each y occurs once in r, so the four rows of s
    assert bounds.rows(CHAIN.everything) == 4
    assert joined(CHAIN, rows, CHAIN.everything) == 3


def test_the_second_norm_is_less_than_rows_times_the_most_frequent_value() -> None:
    rows: Rows = {
        "r": spread([0] * 10 + [*range(1, 91)], "y", "x"),
        "s": spread([0] * 10 + [*range(1, 91)], "y", "z"),
        "d": [{"x": 1}],
    }
    bounds = SizeBounds(CHAIN, "d", Counted(rows, met=False))
    assert bounds.rows(CHAIN.set_of(["r", "s"])) == 190  # √(10² + 90)², not 100 · 10
    assert joined(CHAIN, rows, CHAIN.set_of(["r", "s"])) == 190


@pytest.mark.long
def test_the_middle_relation_of_three() -> None:
    """r and s have one frequent value each, the middle one has no value twice: ℓ2 · ℓ2."""
    graph = QueryGraph([relation("r", "x a"), relation("m", "x y", True), relation("s", "y b")])
    skewed = [0] * 10 + [*range(1, 91)]
    rows: Rows = {"r": spread(skewed, "x", "a"), "s": spread(skewed, "y", "b"), "m": [{"x": i, "y": i} for i in range(100)]}
    assert SizeBounds(graph, "m", Counted(rows, met=False)).rows(graph.everything) == 190
    assert joined(graph, rows, graph.everything) == 190


def test_unknown_is_not_zero() -> None:
    rows: Rows = {"d": [{"x": 1}], "r": [], "s": []}
    assert math.isinf(SizeBounds(CHAIN, "d", Counted(rows, hidden=frozenset({"r", "s"}))).rows(CHAIN.set_of(["r", "s"])))


def test_estimates_are_at_most_the_bound() -> None:
    """Unknown join sizes are assumed far too large; the bounds know that r has one row."""
    rows: Rows = {"d": [{"x": 1}] * 3, "r": [{"x": 1, "y": 1}], "s": [{"y": 1, "z": 1}]}
    statistics = {"d": KnownStatistics({"d": 3.0, "r": 1e6, "s": 1e6})}
    without = Optimizer(CHAIN, ["d"]).choose(statistics)["d"]
    optimizer = Optimizer(CHAIN, ["d"])
    bounded = optimizer.choose(statistics, bounds={"d": SizeBounds(CHAIN, "d", Counted(rows))}.get)["d"]
    assert without.estimated[-1] > 3
    assert all(estimate <= 3 for estimate, step in zip(bounded.estimated, bounded.operators) if "d" in step.covers)
    assert bounded.cost < without.cost
    again = optimizer.choose(statistics)["d"]  # the next batch has no bounds
    assert again.estimated[-1] == without.estimated[-1]


def test_of_plans_of_equal_cost_the_one_with_the_smaller_bound_is_taken() -> None:
    """Estimates see no difference; all rows of the skewed relation may meet the delta before the other one limits them."""
    graph = QueryGraph([relation("d", "x", True), relation("a", "x y"), relation("b", "x y")])
    sizes = {("d", "a", "x"): 10.0, ("d", "b", "x"): 10.0, ("a", "b", "x"): 100.0, ("a", "b", "y"): 100.0}
    statistics = {"d": KnownStatistics({"d": 10.0, "a": 100.0, "b": 100.0}, sizes)}
    for even, skewed in (("a", "b"), ("b", "a")):
        rows: Rows = {
            "d": [{"x": i} for i in range(10)],
            even: spread([*range(100)], "x", "y"),
            skewed: spread([0] * 100, "x", "y"),
        }
        bounds = {"d": SizeBounds(graph, "d", Counted(rows))}
        choice = Optimizer(graph, ["d"]).choose(statistics, bounds=bounds.get)["d"]
        assert str(choice.plan).startswith(f"d » {even}")
