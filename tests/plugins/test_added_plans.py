"""A cost model and a join method of another package: they are chosen, executed and shown, and the answers stay the same."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from added_parts import install
from local_runs import Cut, Registered, World, register

from cqels_opt.cli.grammar import parse
from cqels_opt.errors import InputError
from cqels_opt.planner.calibration_store import Calibration
from cqels_opt.planner.explain import explained_now
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.planner.planner_options import PlannerOptions, join_methods
from cqels_opt.plans import Constants
from cqels_opt.plans.join_methods import CHOSEN_FROM, REPLICATED
from cqels_opt.verify import Element

INSTALLED = EntryPoints(
    [
        EntryPoint("rows", "cost_model:RowsCost", "cqels_opt.cost_models"),
        EntryPoint("sorted-probe", "join_method:SortedProbe", "cqels_opt.join_methods"),
    ]
)
BROKEN = EntryPoint("in-spark", "cqels_opt.plans.join_methods.sort_merge:SortMerge", "cqels_opt.join_methods")
QUERY = """PREFIX : <http://ex.org/>
SELECT * FROM NAMED :S [RANGE 5s] AS ?w WHERE { GRAPH ?w { ?a :at ?x } ?x :near ?y . ?y :name ?n }"""


def iri(name: str) -> str:
    return f"<http://ex.org/{name}>"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples, as if packages with them were installed."""
    install(monkeypatch, *INSTALLED)


@pytest.fixture
def query(tmp_path: Path) -> Registered:
    static = [(iri(f"x{i}"), iri("near"), iri(f"x{j}")) for i in range(6) for j in range(i, 6)]
    static += [(iri(f"x{i}"), iri("name"), f'"{i}"') for i in range(6)]
    at = [Element(1000 * i, ((iri(f"p{i}"), iri("at"), iri(f"x{(5 * i) % 6}")),)) for i in range(12)]
    return register(QUERY, World({"http://ex.org/S": [at]}, static), tmp_path)


def ran(found: Registered, mode: PlannerOptions) -> tuple[list[str], str, list[str | None]]:
    """The answers of a run, its EXPLAIN, and the join methods in the trace of its last batch."""
    driver = found.driver(Cut("4"))
    driver.options = replace(driver.options, plan=mode)
    driver.restore(None)
    for number, rows in enumerate(found.chunks(Cut("4"))):
        records = driver.batch(number, rows)
    methods = [operator.by for delta in records[-1].deltas for operator in delta.operators]
    planners = list(driver.planners.values())
    explained_now(planners, mode, "json", 2)
    return sorted(driver.sink.lines), explained_now(planners, mode, "text", 2), methods  # type: ignore[attr-defined]


def test_a_cost_model_prices_the_plans(query: Registered) -> None:
    expected = ran(query, PlannerOptions())[0]
    answers, text, _ = ran(query, plan_mode("adaptive", cost_model="rows"))
    assert answers == expected
    assert expected
    assert "cost model rows" in text
    assert " rows; " in text  # the unit of its costs


@pytest.mark.parametrize("joins", ["sorted-probe", "auto"])
def test_a_join_method_is_chosen_and_executed(query: Registered, joins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ran(query, PlannerOptions())[0]
    from join_method import SortedProbe  # type: ignore[import-not-found]

    probed: list[int] = []
    join = SortedProbe.join
    monkeypatch.setattr(SortedProbe, "join", lambda self, left, *rest: (probed.append(len(left)), join(self, left, *rest))[1])
    expensive = Calibration(Constants(operator=0.0, step=1e-3))  # of `auto`: a binary search that is worth a sort
    answers, text, methods = ran(query, replace(plan_mode("adaptive", joins=joins), calibration=expensive))
    assert answers == expected
    assert sum(probed) > 0
    assert "sorted probe" in methods
    assert "sorted probe" in text


def test_a_join_method_that_costs_more_is_not_chosen(query: Registered) -> None:
    cheap = Calibration(Constants(step=0.0))
    _, text, methods = ran(query, replace(plan_mode("adaptive"), calibration=cheap))
    assert "sorted probe" not in text
    assert set(methods) == {None}


def test_installed_names_are_options() -> None:
    _, words = parse(["run", __file__, "--cost-model", "rows", "--joins", "sorted-probe"])
    assert (words.cost_model, words.joins) == ("rows", "sorted-probe")
    assert join_methods("probe") == (REPLICATED,)
    assert join_methods("auto")[: len(CHOSEN_FROM)] == CHOSEN_FROM


@pytest.mark.parametrize(
    ("cost_model", "joins", "message"),
    [
        ("cheap", "probe", "there is no cost model 'cheap'; choose one of default, paper, rows"),
        ("default", "quick", "there is no join method 'quick'; choose one of auto, probe, "),
        ("default", "in-spark", "the join method 'in-spark' is no JoinMethod that takes and gives rows in Python"),
    ],
)
def test_a_wrong_name_is_one_clear_sentence(cost_model: str, joins: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, *INSTALLED, BROKEN)
    with pytest.raises(InputError) as caught:
        plan_mode("adaptive", cost_model=cost_model, joins=joins).model  # noqa: B018
    assert str(caught.value).startswith(message)


def test_json_has_the_join_method(query: Registered) -> None:
    """EXPLAIN as JSON has the method's name as ``by``."""
    driver = query.driver(Cut("4"))
    mode = plan_mode("adaptive", joins="sorted-probe")
    driver.options = replace(driver.options, plan=mode)
    driver.restore(None)
    for number, rows in enumerate(query.chunks(Cut("4"))):
        driver.batch(number, rows)
    (delta,) = json.loads(explained_now(list(driver.planners.values()), mode, "json", 0))["deltas"]
    assert "sorted probe" in {operator.get("by") for operator in delta["operators"]}
