"""BNODE() over several instants: a row keeps its node, so ISTREAM and DSTREAM treat it as any other term."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.errors import QueryError
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element, Inputs, Options, evaluate
from cqels_opt.verify.rewrite import plain_sparql

from .conftest import EX, STREAM

AT = [(1, "a at x"), (3, "b at x"), (3, "a at y"), (6, "a at x"), (9, "c at y")]
ELEMENTS = [Element(second * 1000, (tuple(f"<{EX}{word}>" for word in text.split()),)) for second, text in AT]  # type: ignore[arg-type]
HEAD = f"PREFIX : <{EX}> SELECT %s FROM NAMED :S [RANGE 5s] AS ?w WHERE {{ GRAPH ?w {{ ?p :at ?l }} "


@pytest.mark.parametrize("operator", ["istream", "dstream", "rstream"])
@pytest.mark.parametrize(
    ("select", "body"),
    [
        ("?p ?k", "BIND(BNODE() AS ?k) }"),
        ("?k", "BIND(BNODE() AS ?k) }"),  # ?p and ?l decide, although they are not projected
        ("?k ?l", "{ SELECT ?l (BNODE() AS ?k) { GRAPH ?w { ?q :at ?l } } } }"),
        ("DISTINCT ?k", "BIND(BNODE(STR(?l)) AS ?k) }"),
        ("?p ?k", "BIND(BNODE(?p) AS ?k) }"),  # not a string: an error
        ("?p (isBlank(BNODE()) AS ?k)", "FILTER(isBlank(BNODE())) }"),
        ("?k ?m", "BIND(BNODE() AS ?k) BIND(BNODE() AS ?m) FILTER(?k != ?m) }"),
        ("(COUNT(DISTINCT ?k) AS ?n)", "BIND(BNODE() AS ?k) } GROUP BY ?p"),
        ("$p ?k", "OPTIONAL { GRAPH ?w { ?p :at :y } BIND(BNODE() AS ?k) } }"),
    ],
)
def test_a_row_keeps_its_node(select: str, body: str, operator: str, tmp_path: Path) -> None:
    query = register(HEAD % select + body, World({STREAM: [ELEMENTS]}), tmp_path, Settings(operator, drain=True))
    outcome = query.run(Cut("2"))
    assert outcome.answers
    verdict = query.judged(outcome.answers)
    assert verdict.equal, verdict.text()


@pytest.mark.parametrize("evaluator", ["pyoxigraph", "rdflib"])
def test_both_engines(evaluator: str) -> None:
    query = parse(HEAD % "?k" + "BIND(BNODE() AS ?k) }")
    for operator, times in (("istream", [1000, 3000, 3000, 9000]), ("dstream", [8000, 8000])):  # at 6000 a row leaves and enters
        found = evaluate(query, Inputs({STREAM: ELEMENTS}), Options(operator=operator, evaluator=evaluator))  # type: ignore[arg-type]
        assert sorted(time for time, _, _ in found.elements()) == times


def test_the_node_of_a_group_has_no_name() -> None:
    query = parse(HEAD % "(BNODE() AS ?k) (COUNT(*) AS ?n)" + "} GROUP BY ?p")
    assert "BNODE" in plain_sparql(query).text
    with pytest.raises(QueryError, match="RSTREAM alone"):
        evaluate(query, Inputs({STREAM: ELEMENTS}), Options())
    assert evaluate(query, Inputs({STREAM: ELEMENTS}), Options(operator="rstream"))
