"""Properties of the parser: it accepts and interprets queries as other engines do, and raises only our own errors.

``CQELS_OPT_EXAMPLES`` is the number of examples per property.
"""

from __future__ import annotations

import os
from collections import Counter

import pyoxigraph as ox
import pytest
from by_definition import Dataset, answers
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from cqels_opt.errors import QueryError
from cqels_opt.query.dialects import names
from cqels_opt.query.parser import parse
from cqels_opt.verify.dialects import GRAPHS
from cqels_opt.verify.heads import hidden
from cqels_opt.verify.paths import expand_paths

from .random_queries import PREFIX, dataset, select

EXAMPLES = int(os.environ.get("CQELS_OPT_EXAMPLES", "50"))
SLOW = settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


@pytest.mark.long
@SLOW
@given(select(), dataset)
def test_random_queries_mean_what_pyoxigraph_says(text: str, data: Dataset) -> None:
    text = PREFIX + text
    store = ox.Store()
    for graph, triples in data.items():
        name = ox.NamedNode(graph[1:-1]) if graph else ox.DefaultGraph()
        store.extend(
            ox.Quad(*(next(ox.parse(f"{' '.join(triple)} .", ox.RdfFormat.N_TRIPLES)).triple), name) for triple in triples
        )
    written = expand_paths(text)
    if (
        GRAPHS in written
    ):  # a path of length zero at a constant within GRAPH ?g asks which graphs exist, which only verify can answer
        reject()
    try:
        solutions = store.query(written)
    except SyntaxError:
        with pytest.raises(QueryError):
            parse(text)
        return
    query = parse(text)
    names = [variable.value for variable in solutions.variables if not hidden(variable.value)]
    want = Counter(frozenset((n, str(t)) for n in names if (t := solution[n]) is not None) for solution in solutions)
    assert Counter(frozenset(row.items()) for row in answers(query, data)) == want


WORDS = r"""
SELECT DISTINCT * WHERE FROM NAMED GRAPH OPTIONAL UNION MINUS FILTER BIND AS VALUES EXISTS NOT IN GROUP BY HAVING
ORDER DESC LIMIT OFFSET PREFIX BASE REGISTER STREAM ISTREAM WINDOW RANGE SLIDE STEP TRIPLES NOW ELEMS ON TO FIXED
{ } ( ) [ ] . ; , = != < > <= >= + - * / | ^ ! && || ? @ @en ^^ _:b [] () << >> {| |} # % \\ ' " '''
?x ?y $z :a p:b : <http://e/a> <rel> a true 1 -1 1.5 1e3 30s PT5S 'a' "b" COUNT(*) SUM STRLEN IF é \u0041
"""
FRAGMENTS = [*WORDS.split(), " ", "\n", "\r", "\x00", '"""']
GOOD = [
    "PREFIX : <http://e/> SELECT ?x (COUNT(*) AS ?n) FROM NAMED <urn:s> [RANGE 5s] AS ?w { GRAPH ?w { ?x :p 'a'@en } } GROUP BY ?x",
    "SELECT * { STREAM <urn:s> [TRIPLES 5] { ?x a ?y ; ?p (1 [ ?q 2 ]) } FILTER(?x IN (1, -2) || !BOUND(?y)) OPTIONAL { ?x a 1 } }",
    "REGISTER RSTREAM <urn:o> AS SELECT * FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT5S STEP PT2S] { WINDOW <urn:w> { ?x ?p ?y } }",
    "REGISTER QUERY q AS SELECT ?x FROM STREAM <urn:s> [RANGE 5s STEP 1s] { ?x ?p ?y MINUS { ?x ?q 1 } VALUES ?x { <urn:a> UNDEF } }",
    "SELECT ISTREAM ?x FROM NAMED STREAM <urn:s> [NOW - 5 S TO NOW - 2 S] { ?x ?p ?y BIND(STRLEN(?y) + 1 AS ?z) } ORDER BY DESC(?z)",
    "SELECT ?x FROM STREAM <urn:s> WINDOW RANGE 30 MINUTE SLIDE { ?x ?p ?y { ?x ?q ?z WINDOW ELEMS 5 } UNION { } }",
]


def refused_properly(text: str, dialect: str) -> None:
    try:
        parse(text, dialect)
    except QueryError as error:
        assert error.message
        assert 1 <= error.line <= text.count("\n") + 1
        assert error.column >= 1
        assert error.report()


@SLOW
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(" ".join), st.sampled_from(["auto", *names()]))
def test_random_words(text: str, dialect: str) -> None:
    refused_properly(text, dialect)


@pytest.mark.long
@SLOW
@given(st.data(), st.sampled_from(GOOD), st.sampled_from(["auto", *names()]))
def test_mutated_queries(data: st.DataObject, text: str, dialect: str) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + data.draw(st.one_of(st.just(""), st.sampled_from(FRAGMENTS), st.text(max_size=2))) + text[at + cut :]
    refused_properly(text, dialect)


@pytest.mark.parametrize("text", GOOD)
def test_the_queries_that_are_mutated_are_good(text: str) -> None:
    assert parse(text).windows


@SLOW
@given(select())
def test_keywords_may_be_written_in_any_case(text: str) -> None:
    def outcome(written: str) -> object:
        try:
            return parse(written).body
        except QueryError as error:
            return error.line, error.column

    # The random queries' names are lower case, and their keywords upper case.
    assert outcome(PREFIX + text.lower()) == outcome(PREFIX + text)
