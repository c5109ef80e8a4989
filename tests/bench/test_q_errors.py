"""The study of estimates: the definition of an error, and exact estimates where statistics are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.bench import q_errors
from cqels_opt.bench.local import check_same, load, prepare
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.social import DRIFT, PLACES_GRAPH, STREAM, social
from cqels_opt.errors import RunError
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.rdf.static import StaticSource
from cqels_opt.trace.records import Delta, Milliseconds, OperatorRecord, TraceRecord
from cqels_opt.windows.batch_size import BatchSize


def test_scans_do_not_count_and_operators_without_rows_are_told_apart() -> None:
    operators = (
        OperatorRecord("scan", "now", (), 5.0, 5),
        OperatorRecord("probe", "a", ("x",), 8.0, 4),
        OperatorRecord("probe", "b", ("x",), 0.2, 1),
        OperatorRecord("probe", "c", ("x",), 0.2, None),
    )
    record = TraceRecord(
        0, "q", None, None, 5, 0, 0, {}, (Delta("now", "", 0.0, operators=operators),), 0, Milliseconds(), 0, None
    )
    assert q_errors.errors([record, record]) == [(0, 2.0, True), (0, 1.0, False), (1, 2.0, True), (1, 1.0, False)]
    assert q_errors.summarised([1.0, 2.0, 9.0])["median"] == 2.0
    assert q_errors.summarised([]) == {"operators": 0}


def test_kinds_of_estimates_have_the_fields_names() -> None:
    assert list(q_errors.KINDS) == ["bindings", "pairwise", "pairwise + join sampling", "pairwise + feedback", "all"]


def test_joins_of_two_are_exact_but_by_bindings(tmp_path: Path) -> None:
    """Q1 probes names twice, one per person and place; under drift the report's assumptions miss Q4' by far."""
    world = social(tmp_path, authors=100, coauthor_pairs=600, places=40, elements=800, rate=20, phases=DRIFT)
    store = load(tmp_path / "store", [StaticSource(world.static), StaticSource(world.places, PLACES_GRAPH)])
    text = (QUERIES / "q4-prime.rq").read_text(encoding="utf-8").replace("$Author Name$", "Author 3")
    query = prepare("q4-prime", text, store, {STREAM: world.stream}, tmp_path / "q", BatchSize(count=100))
    runs = {kind: query.run(kind, PlannerOptions(estimates=kind)) for kind in ("bindings", "pairwise")}  # type: ignore[arg-type]
    check_same(list(runs.values()))
    assert runs["pairwise"].answers > 0
    worst = {kind: max(q for _, q, _ in q_errors.errors(run.records)) for kind, run in runs.items()}
    assert worst["pairwise"] == pytest.approx(1.0, abs=0.1)
    assert worst["bindings"] > 5


def test_other_answers_are_an_error(tmp_path: Path) -> None:
    world = social(tmp_path, authors=20, elements=60, rate=20)
    store = load(tmp_path / "store", [StaticSource(world.static), StaticSource(world.places, PLACES_GRAPH)])
    both = []
    for count in (30, 60):
        prepared = prepare(
            "q1",
            (QUERIES / "q1.rq").read_text(encoding="utf-8").replace("30 seconds", f"{count} seconds"),
            store,
            {STREAM: world.stream},
            tmp_path / str(count),
            BatchSize(count=count),
        )
        both.append(prepared.run(str(count), PlannerOptions()))
    check_same(both)
    with pytest.raises(RunError, match="60 gives other answers"):
        check_same([both[0], type(both[0])("60", (), 0, "")])
