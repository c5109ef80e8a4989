"""Variables of SELECT that nothing binds: an error where a bound one has almost the same name, else a warning."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.never_bound import likely_mistakes, meant, never_bound
from cqels_opt.query.parser import parse


@pytest.mark.parametrize(
    ("text", "column", "variable"),
    [
        ("SELECT ?flght ?x { ?flight ?y ?x }", 8, "?flight"),
        ("SELECT ?x ?Flight { ?flight ?y ?x }", 11, "?flight"),
        ("SELECT DISTINCT ?dely { ?s ?p ?o BIND(?o * 2 AS ?delay) }", 17, "?delay"),
        ("SELECT (COUNT(*) AS ?n) ?flihgt { ?flight ?y ?x } GROUP BY ?flight", 25, "?flight"),
        ("SELECT ?a { { SELECT ?nme { ?a ?y ?name } } }", 22, "?name"),
        ("SELECT ?city { ?s ?p ?o } VALUES ?citty { 1 }", 8, "?citty"),
    ],
)
def test_a_misspelt_variable(text: str, column: int, variable: str) -> None:
    with pytest.raises(QueryError, match=rf"is in SELECT, and nothing binds it; did you mean \{variable}\?$") as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?flight { ?flight ?y ?x }",
        "SELECT ?flight ?flight2 { ?flight ?y ?x OPTIONAL { ?flight2 ?y ?x } }",
        "SELECT ?x (1 AS ?name) ?name { ?x ?y ?names }",
        "SELECT * { ?x ?y ?z }",
        "SELECT ?g { GRAPH ?g { ?x ?y ?z } }",
        "SELECT ?v { ?x ?y ?z } VALUES ?v { 1 }",
        "ASK { ?x ?y ?z }",
    ],
)
def test_bound_variables(text: str) -> None:
    assert never_bound(parse(text)) == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?city ?s { ?s ?p ?o }",
        "SELECT ?city ?s { ?s ?p ?o } LIMIT 3",
        "SELECT ?s ?city { ?s ?p ?o MINUS { ?city ?p ?o } }",
        "SELECT DISTINCT ?s ?city { ?s ?p ?o } ORDER BY ?s",
    ],
)
def test_a_variable_that_resembles_no_other_is_a_warning(text: str) -> None:
    """SPARQL allows it, and tests of the W3C have it."""
    (sentence,) = likely_mistakes(parse(text))
    assert sentence == "?city is in SELECT, and nothing binds it: its column is empty; the query binds ?s, ?p, ?o"


def test_no_variable_at_all() -> None:
    (sentence,) = never_bound(parse("SELECT ?x {}"))
    assert sentence.endswith("the query binds no variable")


def test_a_name_that_is_selected_itself_is_not_meant() -> None:
    """Numbered names resemble each other."""
    assert meant("person2", ["person1", "x"], ["x", "person2"]) == "person1"
    assert meant("person2", ["person1", "x"], ["person1", "person2"]) is None
