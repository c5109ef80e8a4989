"""Results of calls that are kept: what is computed once, when look-ups end for a while, and costs that are measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from local_runs import Cut, World, bare, register

from cqels_opt import register_function
from cqels_opt.operators import udf_cache
from cqels_opt.operators.observed import FilterWork
from cqels_opt.operators.udf_cache import RESTS, TRIED, CacheAdmission, Calls
from cqels_opt.planner.filter_costs import MeasuredCosts
from cqels_opt.query.algebra import Call, Variable
from cqels_opt.query.columns import Column, Items, Numbers
from cqels_opt.rdf.terms import XSD_INTEGER
from cqels_opt.verify import Element

EX = "http://ex.org/"
CALL = Call(f"<{EX}f>", (Variable("x"),))


@pytest.fixture(autouse=True)
def admissions(monkeypatch: pytest.MonkeyPatch) -> dict[Call, CacheAdmission]:
    fresh: dict[Call, CacheAdmission] = {}
    monkeypatch.setattr(udf_cache, "_ADMISSIONS", fresh)
    return fresh


class Squares:
    """Computes squares, and notes of which numbers."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __call__(self, found: Calls, keys: list[int], rows: int = 0) -> list[object]:
        ids = np.array(keys, np.int64)

        def make(places: np.ndarray) -> Column:
            self.asked.append(ids[places].tolist())
            return Numbers(ids[places].astype(float) ** 2)

        return list(found.column(CALL, rows or len(keys), {"x": ids}, make).items())


def test_what_is_known_is_not_computed_again() -> None:
    squares, results = Squares(), {}  # type: ignore[var-annotated]
    first, second = Calls(results), Calls(results)
    assert squares(first, [3, 1, 2]) == [9, 1, 4]
    assert squares(second, [5, 2, 4, 3], rows=40) == [25, 4, 16, 9]
    assert squares(second, [1, 5]) == [1, 25]
    assert squares.asked == [[3, 1, 2], [5, 4]]
    account = second.accounts[CALL]
    assert (account.rows, account.distinct, account.looked_up, account.hits) == (42, 6, 6, 4)
    assert second.combinations == 6


def test_without_results_nothing_is_kept() -> None:
    squares, found = Squares(), Calls()
    assert squares(found, [2]) == squares(found, [2]) == [4]
    assert squares.asked == [[2], [2]]
    assert found.accounts[CALL].looked_up == 0


def test_columns_of_different_kinds_are_put_together() -> None:
    found = Calls({})
    ids = np.array([1, 2, 3])
    made: list[Column] = [Numbers(np.array([1.5])), Items(["<http://ex.org/a>", None])]
    assert found.column(CALL, 1, {"x": ids[:1]}, lambda places: made[0]).items() == [1.5]
    assert list(found.column(CALL, 3, {"x": ids}, lambda places: made[1]).items()) == [1.5, "<http://ex.org/a>", None]


def test_two_arguments_are_one_key() -> None:
    found, asked = Calls({}), []

    def ask(a: list[int], b: list[int]) -> list[object]:
        def make(places: np.ndarray) -> Column:
            asked.append([(a[i], b[i]) for i in places])
            return Numbers(np.array([float(a[i] * b[i]) for i in places]))

        return list(found.column(CALL, len(a), {"x": np.array(a), "y": np.array(b)}, make).items())

    assert ask([1, 2], [3, 3]) == [3, 6]
    assert ask([2, 1, 1], [3, 4, 3]) == [6, 4, 3]
    assert asked == [[(1, 3), (2, 3)], [(1, 4)]]


def test_branches_of_union_that_bind_different_variables(tmp_path: Path) -> None:
    """One branch calls the function with ?a, the other with ?b: equal ids in different columns are different arguments."""
    register_function(bare(CALL.function), lambda x: x + 1000, arguments=1)
    branches = (
        f"{{ GRAPH ?w {{ ?s :{p} {v} }} BIND(:f(IF(BOUND(?a), ?a, ?b + 100)) AS ?r) }}" for p, v in (("p", "?a"), ("q", "?b"))
    )
    text = f"PREFIX : <{EX}> SELECT ?s ?r FROM NAMED :S [RANGE 3s] AS ?w {{ {' UNION '.join(branches)} }}"
    triples = [
        (f"<{EX}{s}>", f"<{EX}{p}>", f'"{n}"^^<{XSD_INTEGER}>') for s, p, n in (("x", "p", 1), ("y", "q", 1), ("z", "q", 2))
    ]
    query = register(text, World({f"{EX}S": [[Element(1000, (triple,)) for triple in triples]]}), tmp_path)
    found = query.run(Cut("100")).answers
    verdict = query.judged(found)
    assert verdict.equal, verdict.text()
    assert sum(found.values()) == 3


@pytest.mark.parametrize(("hits", "rests"), [(0, RESTS), (9, RESTS), (1_000, 0)])
def test_look_ups_rest_where_they_do_not_pay(hits: int, rests: int) -> None:
    """2 µs a call, and 20 µs of looking up in each piece: ten hits a piece are the least that pays."""
    habit = CacheAdmission()
    for _ in range(TRIED):
        assert habit.begins()
        habit.hits += hits
        habit.made += 100
        habit.seconds += 100 * 2e-6
        habit.overhead += 20e-6
        habit.judge()
    assert habit.resting == rests
    assert [habit.begins() for _ in range(rests)] == [False] * rests
    assert habit.begins()  # and is tried again, without what was before
    assert (habit.pieces, habit.hits) == (0, 0)


def test_a_resting_call_is_right_all_the_same(admissions: dict[Call, CacheAdmission]) -> None:
    squares, found = Squares(), Calls({})
    admissions[CALL] = CacheAdmission(resting=1)
    assert squares(found, [2, 3]) == squares(found, [2, 3]) == squares(found, [2, 3]) == [4, 9]
    assert squares.asked == [[2, 3], [2, 3]]


# ------------------------------------------------------------------ costs
def test_a_cost_is_what_was_measured_beyond_what_rows_take_anyway() -> None:
    costs = MeasuredCosts(1e-7)
    declared = {"f": 100.0}
    seen = FilterWork(pieces=1, rows=10_000, combinations=1_000, seconds=3e-4 + 10_000 * 2e-7 + 1_000 * 4e-5)
    assert costs.observe({"f": seen, "other": seen}, declared)
    assert costs.weights == {"f": 400.0}
    assert not costs.observe({"f": seen}, declared)


def test_noise_and_little_evidence_change_nothing() -> None:
    costs = MeasuredCosts(1e-7)
    declared = {"f": 100.0}
    assert not costs.observe({"f": FilterWork(1, 100, 100, 3e-4 + 1.4 * 1e-3)}, declared)  # too little time in all
    assert not costs.observe({"f": FilterWork(100, 1_000, 1_000, 5.0)}, declared)  # pieces of ten: they are what is measured
    for _ in range(9):
        assert not costs.observe({"f": FilterWork(1, 1_000, 1_000, 3e-4 + 2e-4 + 1.3e-2)}, declared)  # 130, near enough to 100
    assert costs.weights == {}


def test_costs_follow_slowly_and_go_on_after_a_restart() -> None:
    costs = MeasuredCosts(1e-7)
    declared = {"f": 100.0}

    def batch(weight: float) -> dict[str, FilterWork]:
        return {"f": FilterWork(1, 1_000, 1_000, 3e-4 + 2e-4 + 1_000 * weight * 1e-7)}

    assert costs.observe(batch(1_000.0), declared)
    again = MeasuredCosts(1e-7)
    again.resume(costs.state())
    for found in (costs, again):
        changes = [found.observe(batch(100.0), declared) for _ in range(40)]
        assert 1 <= sum(changes) <= 8
        assert found.weights["f"] < 160
    assert costs.weights == again.weights
