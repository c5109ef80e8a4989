"""Conditions on variables that nothing in their group binds: warned about exactly where they are never true."""

from __future__ import annotations

import pytest

from cqels_opt.query.never_true import never_true
from cqels_opt.query.parser import parse

NOTHING = "is never true: nothing in its group binds"


def said(body: str, select: str = "*", after: str = "") -> tuple[str, ...]:
    text = f"PREFIX : <http://example.org/>\nSELECT {select} FROM NAMED :s [RANGE 1 minute] AS ?w WHERE {{ {body} }} {after}"
    return never_true(parse(text))


@pytest.mark.parametrize(
    ("body", "condition", "missing"),
    [
        ("?a :home ?h GRAPH ?w { ?a :at ?p FILTER(?p != ?h) }", "(?p != ?h)", "?h"),
        ("?a :home ?h OPTIONAL { ?a :at ?p FILTER(?p != ?z) }", "(?p != ?z)", "?z"),
        ("?a :home ?h FILTER(?h = :x && STR(?y) = ?z)", "(STR(?y) = ?z)", "?y, ?z"),
        ("?a :home ?h { ?b :home ?g FILTER(?h = ?b || ?h = ?g) }", "((?h = ?b) || (?h = ?g))", "?h"),
        ("?a :home ?h { SELECT ?b { ?b :home ?g FILTER(?h IN (:x)) } }", "(?h IN (<http://example.org/x>))", "?h"),
        ("{ ?a :home ?h FILTER(?b = 1) } UNION { ?a :was ?b }", "(?b = 1)", "?b"),
    ],
)
def test_what_a_group_does_not_bind(body: str, condition: str, missing: str) -> None:
    assert [s.replace('"1"^^<http://www.w3.org/2001/XMLSchema#integer>', "1") for s in said(body)] == [
        f"{condition} {NOTHING} {missing}"
    ]


@pytest.mark.parametrize(
    "body",
    [
        "?a :home ?h OPTIONAL { ?a :at ?p FILTER(?p != ?h) }",  # an OPTIONAL's condition sees the left side
        "?a :home ?h FILTER(!BOUND(?z)) FILTER(COALESCE(?z, true))",
        "?a :home ?h FILTER(?z = 1 || ?h = :x)",
        "?a :home ?h FILTER(IF(?h = :x, ?z, true))",
        "?a :home ?h FILTER(?h IN (?z, :x))",
        "?a :home ?h FILTER EXISTS { ?b :at ?p FILTER(?p != ?h) }",  # reads the outer row
        "?a :home ?h FILTER(?h = ?g) BIND(:x AS ?g)",
        "?a :home ?h OPTIONAL { ?a :at ?p } FILTER(?p = :x)",
        "?a :home+ ?h FILTER(?h != ?a) MINUS { ?a :at ?p FILTER(?p != ?a) }",
    ],
)
def test_what_may_be_true(body: str) -> None:
    assert said(body) == ()


def test_having_knows_no_name_that_select_gives() -> None:
    wrong = said("GRAPH ?w { ?a :heart ?r }", "?a (AVG(?r) AS ?mean)", "GROUP BY ?a HAVING (?mean > 100)")
    assert [sentence.split(" ", 3)[0] for sentence in wrong] == ["(?mean"]
    assert wrong[0].endswith(f"{NOTHING} ?mean")
    assert said("GRAPH ?w { ?a :heart ?r }", "?a (AVG(?r) AS ?mean)", "GROUP BY ?a HAVING (AVG(?r) > 100)") == ()
    (both,) = said("GRAPH ?w { ?a :heart ?r }", "?a (AVG(?r) AS ?mean)", "GROUP BY ?a HAVING (AVG(?r) > ?limit)")
    assert both == f"(AVG(?r) > ?limit) {NOTHING} ?limit"


def test_long_chains() -> None:
    chain = " || ".join(f"?z = {i}" for i in range(3_000))
    (sentence,) = said(f"?a :home ?h FILTER({chain})")
    assert sentence.endswith(f"{NOTHING} ?z")
