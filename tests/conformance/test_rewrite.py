"""Which parts of a query's text verify changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from cqels_opt.errors import QueryError, RunError
from cqels_opt.query.algebra import Bgp, Query, Window
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element, Inputs, Options, evaluate
from cqels_opt.verify.on_pyoxigraph import Oxigraph
from cqels_opt.verify.path_syntax import read_path
from cqels_opt.verify.rewrite import at_instant, concatenations, plain_sparql
from cqels_opt.verify.ties import with_ties
from cqels_opt.verify.tokens import solid, tokens

Ask = Callable[..., list[str]]
At = Callable[[float, str, str], Element]
PREFIX = "PREFIX : <http://ex.org/>\n"
WINDOW = "GRAPH <urn:cqels-opt:window:w>"


def plain(text: str) -> str:
    return plain_sparql(parse(PREFIX + text)).text.removeprefix(PREFIX)


def test_only_window_clauses_are_rewritten() -> None:
    text = 'SELECT ?p FROM NAMED :S [RANGE 5s] AS ?w\nWHERE { # GRAPH ?w {\n  GRAPH ?w { ?p :at "GRAPH ?w" }\n}'
    assert plain(text) == f'SELECT ?p  \nWHERE {{ # GRAPH ?w {{\n  {WINDOW} {{ ?p :at "GRAPH ?w" }}\n}}'


def test_stream_blocks() -> None:
    found = plain("SELECT ?p { STREAM :S [NOW] { ?p :at ?l } STREAM :S [RANGE 5s] { ?q :at ?l } }")
    assert "STREAM" not in found
    assert found.count("GRAPH <urn:cqels-opt:window:") == 2


def test_an_undeclared_graph_variable_does_not_see_windows(ask: Ask) -> None:
    text = "SELECT ?g ?n FROM NAMED :S [RANGE 1s] AS ?w { GRAPH ?w { ?p :at ?l } GRAPH ?g { ?l :name ?n } }"
    graphs = {"G": ["x name ex", "y name why"], "H": ["y name wye"]}
    assert ask(text, graphs=graphs) == ["1 + G ex", "3 + G ex", "6 + G why", "6 + H wye", "9 + G why", "9 + H wye"]
    everything = (
        "SELECT ?g (COUNT(*) AS ?k) FROM NAMED :S [RANGE 1s] AS ?w { GRAPH ?w { ?p :at ?l } GRAPH ?g { ?s ?q ?o } } GROUP BY ?g"
    )
    assert ask(everything, graphs=graphs) == [
        "1 + G 2",
        "1 + H 1",
        "3 + G 2",
        "3 + H 1",
        "6 + G 2",
        "6 + H 1",
        "9 + G 2",
        "9 + H 1",
    ]


def test_from_makes_a_graph_the_default_graph(ask: Ask) -> None:
    text = "SELECT ?n FROM :G FROM NAMED :G FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } ?l :name ?n }"
    assert ask(text, default=["x name no"], graphs={"G": ["x name yes"]}) == ["1 + yes", "3 + yes"]


def test_now_is_the_instant(ask: Ask) -> None:
    text = plain("SELECT (NOW() AS ?t) FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }")
    assert '("1970-01-01T00:00:01.5Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> AS ?t)' in at_instant(text, 1500)
    query = "SELECT ?p (NOW() AS ?t) FROM NAMED :S [RANGE 2s] AS ?w { GRAPH ?w { ?p :at :y } }"
    assert ask(query, Options(policy="p:4000", operator="istream")) == []
    assert ask(query, Options(policy="p:7000")) == ["7 + a 1970-01-01T00:00:07Z"]


def test_instants_beyond_dates_have_no_now() -> None:
    """Elements may have times up to 2^53 ms from 1970; only NOW() needs a date."""
    text = "SELECT ?p FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }"
    assert at_instant(plain(text), 2**52) == plain(text)
    now = plain(text.replace("?p FROM", "(NOW() AS ?t) FROM"))
    assert '"0999-01-01T00:00:00Z"' in at_instant(now, -30641760000000)
    with pytest.raises(
        RunError, match="verify cannot check NOW\\(\\) at 4503599627370496 ms: it knows the years 1 to 9999 alone"
    ):
        at_instant(now, 2**52)


def test_what_depends_on_the_run_is_refused(ask: Ask) -> None:
    with pytest.raises(QueryError, match="RAND"):
        ask("SELECT (RAND() AS ?r) FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }")


def test_what_the_engine_cannot_evaluate_is_a_clear_error() -> None:
    window = Window("w", "http://ex.org/S", "now")
    inputs = Inputs({"http://ex.org/S": [Element(1, (("<a:b>", "<a:b>", "<a:b>"),))]})
    query = Query("SELECT ?p { GRAPH ?w { ?p ?q } }", "cqels", (), Bgp(()), (window,), ())
    for evaluator in ("pyoxigraph", "rdflib"):
        with pytest.raises(RunError, match=f"{evaluator} cannot evaluate the rewritten query"):
            evaluate(query, inputs, Options(evaluator=evaluator))


# ------------------------------------------------------------------ LIMIT, SAMPLE, GROUP_CONCAT
def test_ties_follow_the_names_of_variables() -> None:
    assert with_ties("SELECT ?b { ?b :at ?a } ORDER BY ?b LIMIT 2 OFFSET 1") == (
        "SELECT ?b { ?b :at ?a } ORDER BY ?b ?a STR(?a) LANG(?a) ?b STR(?b) LANG(?b) LIMIT 2 OFFSET 1"
    )
    assert with_ties("SELECT ?b { ?b :at ?a } LIMIT 2") == "SELECT ?b { ?b :at ?a } ORDER BY ?b STR(?b) LANG(?b) LIMIT 2"
    grouped = "SELECT ?b (COUNT(*) AS ?n) { ?b :at ?a } GROUP BY ?b ORDER BY DESC(?n) LIMIT 1"
    assert with_ties(grouped).endswith("ORDER BY DESC(?n) ?b STR(?b) LANG(?b) ?n STR(?n) LANG(?n) LIMIT 1")
    assert with_ties("SELECT * { { SELECT ?b { ?b :at ?a } LIMIT 2 } ?b :is ?c }") == (
        "SELECT * { { SELECT ?b { ?b :at ?a } ORDER BY ?b STR(?b) LANG(?b) LIMIT 2 } ?b :is ?c }"
    )


def test_limit_takes_the_first_in_the_order_of_terms(ask: Ask, at: At) -> None:
    stream = [at(1, "c", "x"), at(1, "b", "x"), at(1, "a", "y"), at(2, "a", "x")]
    head = "SELECT ?p ?l FROM NAMED :S [RANGE 9s] AS ?w { GRAPH ?w { ?p :at ?l } }"
    assert ask(head + " ORDER BY ?l LIMIT 2", Options(operator="rstream"), stream) == ["1 = x b", "1 = x c", "2 = x a", "2 = x b"]
    assert ask(head + " LIMIT 1", Options(operator="rstream"), stream) == ["1 = x b", "2 = x a"]


def test_sample_is_the_first_in_the_order_of_terms(ask: Ask, at: At) -> None:
    stream = [at(1, "c", "x"), at(1, "b", "x")]
    assert ask("SELECT (SAMPLE(?p) AS ?s) FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }", None, stream) == ["1 + b"]


def test_concatenations_are_found() -> None:
    text = (
        'SELECT (GROUP_CONCAT(DISTINCT STR(?p); SEPARATOR=", ") AS ?all) (GROUP_CONCAT(?l) AS ?places) FROM NAMED :S [NOW] AS ?w'
    )
    assert concatenations(parse(f"{PREFIX}{text} {{ GRAPH ?w {{ ?p :at ?l }} }}")) == {"all": ", ", "places": " "}


def test_a_separator_may_have_escapes() -> None:
    text = "SELECT (GROUP_CONCAT(?p; SEPARATOR = '\\n\\u0041') AS ?all) FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }"
    assert concatenations(parse(PREFIX + text)) == {"all": "\nA"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (UCASE(GROUP_CONCAT(?l)) AS ?k) FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }",
        "SELECT (GROUP_CONCAT(?l) AS ?k) FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } } HAVING(STRLEN(?k) > 2)",
        "SELECT (STR(?k) AS ?m) FROM NAMED :S [NOW] AS ?w { SELECT (GROUP_CONCAT(?l) AS ?k) { GRAPH ?w { ?p :at ?l } } }",
        "SELECT ?m FROM NAMED :S [NOW] AS ?w { { SELECT (GROUP_CONCAT(?l) AS ?k) { GRAPH ?w { ?p :at ?l } } } BIND(CONCAT(?k) AS ?m) }",
    ],
)
def test_what_is_computed_from_a_concatenation_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"what is computed from .*GROUP_CONCAT: the order of its parts is open"):
        concatenations(parse(PREFIX + text))


def test_a_concatenation_of_a_sub_select_may_be_an_answer() -> None:
    text = "SELECT ?k FROM NAMED :S [NOW] AS ?w { { SELECT (GROUP_CONCAT(?l) AS ?k) { GRAPH ?w { ?p :at ?l } } } }"
    assert concatenations(parse(PREFIX + text)) == {"k": " "}


@pytest.mark.parametrize("name", ["ask", "as", "select"])
def test_the_name_of_a_query_may_be_a_keyword(name: str, ask: Ask) -> None:
    text = f"REGISTER QUERY {name} AS SELECT ?p FROM NAMED :S [NOW] AS ?w {{ GRAPH ?w {{ ?p :at :x }} }}"
    assert "REGISTER" not in plain(text)
    assert ask(text) == ask(text.partition(" AS ")[2])


def test_variables_of_the_rewriting_are_refused() -> None:
    with pytest.raises(QueryError, match=r"verify cannot check a query with the variable \?_bag_total"):
        plain("SELECT ?_bag_total FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?_bag_total } }")


def test_a_hidden_variable_in_a_graph_that_stands_outside_as_well_is_refused() -> None:
    windows = "FROM NAMED :S [NOW] AS ?w"
    for select in ("SELECT (COUNT(*) AS ?n)", "SELECT ?n"):
        with pytest.raises(
            QueryError, match=r"a sub-select in GRAPH \?g that hides \?l, which stands outside as well: rename one of them"
        ):
            plain(f"SELECT ?g ?n {windows} {{ GRAPH ?w {{ ?p :at ?l }} GRAPH ?g {{ {select} {{ ?l :name ?n }} }} }}")
        plain(f"SELECT ?g ?n {windows} {{ GRAPH ?w {{ ?p :at ?l }} GRAPH ?g {{ {select} {{ ?m :name ?n }} }} }}")
    plain(f"SELECT ?g ?n {windows} {{ GRAPH ?w {{ ?p :at ?l }} GRAPH ?g {{ SELECT * {{ ?l :name ?n }} }} }}")


def test_strings_are_not_rewritten_for_an_engine() -> None:
    assert Oxigraph().select("SELECT (CONCAT ('concat (a)', 'b') AS ?x) {}") == Counter([frozenset([("x", '"concat (a)b"')])])


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("^(!(^:p))", "!(:p)"),
        ("(^(!(^:p|:q)))*", "(!(:p|^:q))*"),
        ("^(:p/:q)", "^((:p/:q))"),
        ("^!:p", "!(^:p)"),
    ],
)
def test_inverses_of_negated_sets_are_negated_sets(path: str, written: str) -> None:
    """Of those rdflib makes sets that it cannot evaluate."""
    assert read_path(solid(tokens(path)), 0)[0].written() == written
