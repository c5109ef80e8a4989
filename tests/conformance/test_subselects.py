"""Sub-selects without windows are evaluated once: equal answers; not if that could change the answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cqels_opt.query.parser import parse
from cqels_opt.verify import Options
from cqels_opt.verify.on_pyoxigraph import Oxigraph
from cqels_opt.verify.rewrite import plain_sparql
from cqels_opt.verify.subselects import evaluated_once

Ask = Callable[..., list[str]]
LIKES = ["a likes c", "a likes d", "b likes c", "b likes c2", "b knows a"]
HEAD = "SELECT ?p ?n FROM NAMED :S [RANGE 2s] AS ?w { GRAPH ?w { ?p :at ?l } "
UNBOUND = "{ SELECT ?p ?n { ?p :likes ?x OPTIONAL { ?p :knows ?n } } }"
COUNTS = "{ SELECT ?p (COUNT(?x) AS ?n) { ?p :likes ?x } GROUP BY ?p }"
NESTED = "{ SELECT ?p (MAX(?k) AS ?n) { { SELECT ?p (COUNT(*) AS ?k) { ?p :likes ?x } GROUP BY ?p } } GROUP BY ?p }"


@pytest.mark.parametrize("evaluator", ["pyoxigraph", "rdflib"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (COUNTS, ["1 + 2 a", "3 + 2 b", "6 + 2 a"]),
        ("OPTIONAL " + COUNTS, ["1 + 2 a", "3 + 2 b", "6 + 2 a", "9 + c"]),
        ("{ SELECT ?p { ?p :likes ?x } }", ["1 + a", "1 + a", "3 + b", "3 + b", "6 + a", "6 + a"]),
        ("MINUS { SELECT ?p { ?p :likes ?x } }", ["9 + c"]),
        (UNBOUND, ["1 + a", "1 + a", "3 + a b", "3 + a b", "6 + a", "6 + a"]),
        ("FILTER EXISTS { SELECT ?p { ?p :likes ?x } }", ["1 + a", "3 + b", "6 + a"]),
        (NESTED, ["1 + 2 a", "3 + 2 b", "6 + 2 a"]),
        ("{ SELECT ?p { ?p :never ?x } }", []),
    ],
)
def test_static_sub_selects(body: str, expected: list[str], evaluator: str, ask: Ask) -> None:
    assert ask(HEAD + body + "}", Options(evaluator=evaluator), default=LIKES) == expected  # type: ignore[arg-type]


def once(body: str, head: str = HEAD) -> str:
    engine = Oxigraph()
    engine.add(None, [("<http://ex.org/a>", "<http://ex.org/likes>", "<http://ex.org/b>")])
    return evaluated_once(engine, plain_sparql(parse(f"PREFIX : <http://ex.org/>\n{head}{body} }}")))


def test_the_text_reads_rows_instead() -> None:
    assert (
        "{ GRAPH <urn:cqels-opt:window:rows#1> { ?_bag_row1 <urn:cqels-opt:n> ?n . ?_bag_row1 <urn:cqels-opt:p> ?p . }"
        in once(COUNTS)
    )


@pytest.mark.parametrize(
    ("body", "head"),
    [
        ("{ SELECT ?p { GRAPH ?w { ?p :at ?x } } }", HEAD),
        ("{ SELECT ?p (NOW() AS ?n) { ?p :likes ?x } }", HEAD),
        ("GRAPH :G { { SELECT ?p { ?p :likes ?x } } }", HEAD),
        ("FILTER EXISTS { { SELECT ?p { ?p :likes ?x } } }", HEAD),
        (COUNTS, HEAD.replace("SELECT ?p ?n", "SELECT DISTINCT *")),
    ],
)
def test_what_is_left_alone(body: str, head: str) -> None:
    assert "rows#" not in once(body, head)
