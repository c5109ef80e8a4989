"""Conditions that compare all rows of two patterns with each other, where one variable would join them."""

from __future__ import annotations

import pytest

from cqels_opt.query.never_bound import likely_mistakes
from cqels_opt.query.parser import parse


@pytest.mark.parametrize(
    "where",
    [
        "?a :at ?x . ?b :val ?v FILTER(?a = ?b)",
        "?a :at ?x . ?b :val ?v FILTER(?v > 3 && sameTerm(?b, ?a))",
        "{ ?a :at ?x } { ?y :near ?a . ?b :val ?v } FILTER(?a = ?b)",
        "{ ?a :at ?x BIND(1 AS ?one) FILTER(?x != :home) } { ?y :near ?b } FILTER(?b = ?a)",
    ],
)
def test_comparisons_that_join_nothing(where: str) -> None:
    (sentence,) = likely_mistakes(parse(f"PREFIX : <http://example.org/> SELECT * {{ {where} }}"))
    assert "are compared for each pair of matches, because no pattern connects them: write one variable for both" in sentence
    assert "?a" in sentence and "?b" in sentence


@pytest.mark.parametrize(
    "where",
    [
        "?a :at ?x . ?a :val ?v FILTER(?a = ?x)",
        "?a :at ?x . ?b :at ?x FILTER(?a = ?b)",  # the place connects them
        "?a :at ?x . ?b :val ?v FILTER(?x = ?v)",  # literals are equal by value
        "?a :at ?x . ?b :val ?v FILTER(?a != ?b)",
        "?a :at ?x OPTIONAL { ?b :val ?v } FILTER(?a = ?b)",
        "?a :at ?x BIND(:home AS ?b) FILTER(?a = ?b)",
        "?a :at ?x . ?b :val ?v . ?x :in* ?v FILTER(?a = ?b)",
        "?a :at ?x . ?b :val ?v . ?x (:in|:out) ?b FILTER(?a = ?b)",
        "?a :at ?x . ?b :val ?v . VALUES (?a ?v) { (:p 1) } FILTER(?a = ?b)",
        "GRAPH ?g { ?a :at ?x } GRAPH ?g { ?b :val ?v } FILTER(?a = ?b)",
    ],
)
def test_other_comparisons(where: str) -> None:
    assert likely_mistakes(parse(f"PREFIX : <http://example.org/> SELECT * {{ {where} }}")) == ()
