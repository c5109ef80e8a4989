"""EXPLAIN says which expressions go row by row: those, and no others, for which the operators have no way by the column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from local_runs import World, register

from cqels_opt.operators import expressions
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.term_table import TermTable
from cqels_opt.planner.explain import explained
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.row_expressions import row_by_row
from cqels_opt.query.algebra import Filter, Project
from cqels_opt.query.parser import parse
from cqels_opt.rdf.ids import PUBLIC

P = "PREFIX : <http://ex.org/> "
WINDOWS = "FROM NAMED :S [RANGE 5s] AS ?w FROM NAMED :T [RANGE 5s] AS ?v"


def texts(select: str, body: str, folder: Path) -> list[str]:
    return row_by_row(register(f"{P} SELECT {select} {WINDOWS} WHERE {body}", World({}), folder).program)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{ GRAPH ?w { ?a :at ?x } FILTER(?x > 3 && ?x != :b) }", []),
        ("{ GRAPH ?w { ?a :at ?x } FILTER(?x > 3 && REGEX(?a, 'b')) }", ['REGEX(?a, "b")']),
        ("{ GRAPH ?w { ?a :at ?x } FILTER(?x > 3 || ?x + 1 > 5) }", ["((?x > 3) || ((?x + 1) > 5))"]),
        ("{ GRAPH ?w { ?a :at ?x } OPTIONAL { GRAPH ?v { ?a :b ?y } FILTER(LANG(?y) = 'en') } }", ['(LANG(?y) = "en")']),
        ("{ GRAPH ?w { ?a :at ?x } FILTER NOT EXISTS { GRAPH ?v { ?a :b ?y } } FILTER(!BOUND(?x) || ISIRI(?a)) }", []),
        ("{ GRAPH ?w { ?a :at ?x } BIND(STRLEN(?x) AS ?y) FILTER(?y < 4) }", ["(STRLEN(?x) < 4)"]),
        ("{ GRAPH ?w { ?a :at ?x } } GROUP BY ?a ?x HAVING(SUM(?x * 2) > 3)", ["(?x * 2)"]),
    ],
)
def test_what_is_listed(body: str, expected: list[str], tmp_path: Path) -> None:
    assert texts("?a ?x", body, tmp_path) == expected


def test_explain(tmp_path: Path) -> None:
    query = register(f"{P} SELECT ?a {WINDOWS} WHERE {{ GRAPH ?w {{ ?a :at ?x }} FILTER(STRLEN(?x) = 2) }}", World({}), tmp_path)
    line = "row by row, each distinct combination of arguments once: (STRLEN(?x) = 2)"
    assert line in explained([query.program], PlannerOptions("adaptive"), "text", 0).splitlines()
    assert json.loads(explained([query.program], PlannerOptions("adaptive"), "json", 0))["row_by_row"] == {
        query.program.id: ["(STRLEN(?x) = 2)"]
    }


CONDITIONS = [
    "?x",
    "!?x",
    "?x = 1",
    "?x IN (1, 2)",
    "BOUND(?x)",
    "!BOUND(?x)",
    "ISIRI(?x)",
    "ISIRI(STR(?x))",
    "?x < ?y || ?x > 3",
]
CONDITIONS += ["?x < ?y && STR(?x) = 'a'", "SAMETERM(?x, ?y)", "-?x < 3", "ISNUMERIC(?x)", "!(?x = 1 || ISBLANK(?y))"]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_it_is_what_the_operators_do(condition: str) -> None:
    body = parse(f"SELECT * {{ ?x ?p ?y FILTER({condition}) }}").body
    assert isinstance(body, Project)
    assert isinstance(body.input, Filter)
    ones = np.ones(3, np.int64)
    found = expressions._by_column(Rows({"x": ones, "y": ones}, ones, ones, ones), body.input.condition, TermTable(PUBLIC, None))
    assert (found is not None) == expressions.goes_by_column(body.input.condition)
