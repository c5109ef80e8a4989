"""The weights of expressions: each function has one, they add up, and what is dearer weighs more."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cqels_opt.planner.calibration import Experiment
from cqels_opt.planner.predicate_costs import CLASSES, WEIGHTS, experiments, measure, units, weight
from cqels_opt.query.algebra import Bgp, Call, Exists, Expression, Filter
from cqels_opt.query.functions import ARITIES
from cqels_opt.query.parser import parse


def condition(text: str) -> Expression:
    query = parse(
        f"PREFIX : <http://ex.org/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT * {{ ?a :p ?v FILTER({text}) }}"
    )
    body = query.body
    while not isinstance(body, Filter):
        body = body.input  # type: ignore[union-attr]
    return body.condition


def test_every_function_has_a_class_and_every_class_a_weight() -> None:
    assert set(ARITIES) <= set(CLASSES)
    assert set(CLASSES.values()) | {"column", "row"} == set(WEIGHTS)
    assert min(WEIGHTS.values()) == WEIGHTS["column"] == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?v < 5", {"column": 1}),
        ("?v = ?a", {"column": 1}),
        ("?a != :b", {"column": 1}),
        ("?v >= 1.5 && ?a != :b && ?v < 7", {"column": 3}),
        ("?v = 'x'", {"row": 1, "number": 1}),
        ("?v = '2013-02-07T12:00:00Z'^^xsd:dateTime", {"row": 1, "number": 1}),
        ("?v", {"row": 1}),
        ("?v + 1 < 5", {"row": 1, "number": 2}),
        ("BOUND(?v)", {"column": 1}),
        ("isIRI(?a) || !BOUND(?v) || ?v < 5", {"column": 3}),
        ("isLiteral(?a) && ?v = 'x'", {"column": 1, "row": 1, "number": 1}),
        ("!(?v = 'x')", {"row": 1, "number": 1}),
        ("isIRI(STR(?a))", {"row": 1, "term": 2}),
        ("?v < 5 || REGEX(STR(?a), 'x')", {"row": 1, "logic": 1, "number": 1, "regex": 1, "term": 1}),
        ("?v < 5 && CONTAINS(?a, 'x')", {"column": 1, "row": 1, "string": 1}),
        ("MD5(STR(?v)) = SHA1(?a)", {"row": 1, "number": 1, "hash": 2, "term": 1}),
        ("xsd:integer(?v) IN (1, 2)", {"row": 1, "number": 1, "cast": 1}),
        ("YEAR(NOW()) = 2013", {"row": 1, "number": 1, "date": 1, "drawn": 1}),
    ],
)
def test_what_is_evaluated_for_a_row(text: str, expected: dict[str, int]) -> None:
    assert units(condition(text)) == expected
    assert weight(condition(text)) == sum(WEIGHTS[name] * count for name, count in expected.items())


def test_dearer_expressions_weigh_more() -> None:
    texts = [
        "?v < 5",
        "?v < 5 || !BOUND(?v)",
        "?v + 1 < 5",
        "CONTAINS(UCASE(?v), 'X')",
        "REGEX(UCASE(?v), 'X')",
        "REGEX(MD5(UCASE(?v)), 'X')",
    ]
    found = [weight(condition(text)) for text in texts]
    assert found == sorted(set(found))


def test_exists_is_a_column_by_the_time_it_is_evaluated() -> None:
    exists = Exists(Bgp(()), negated=False)
    assert units(exists) == {"row": 1, "logic": 1}
    assert units(Call("!", (exists,))) == {"row": 1, "logic": 2}


def test_the_experiments_tell_the_weights_apart() -> None:
    """On a machine whose weights are those committed, they are found."""

    def timer(tried: Sequence[Experiment]) -> list[float]:
        seconds = {"filtering": 1e-5, **{name: 5e-8 * value for name, value in WEIGHTS.items()}}
        return [sum(seconds[name] * count for name, count in experiment.work.items()) for experiment in tried]

    assert measure(timer) == pytest.approx(dict(WEIGHTS), rel=1e-3)


def test_an_experiment_evaluates_its_condition() -> None:
    kept = [int(experiment.run().sum()) for experiment in experiments((60,))]  # type: ignore[attr-defined]
    assert kept[:3] == [20 * 2, 60, 0]
    assert min(kept) == 0
    assert max(kept) == 60
