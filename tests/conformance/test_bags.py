"""A triple that arrives twice counts twice in a cqels window, wherever the query matches it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.verify import Element, Options
from cqels_opt.verify.bags import over_copies

Ask = Callable[..., list[str]]
At = Callable[[float, str, str], Element]
SNAPSHOT = Options(policy="p:10000", operator="rstream")
HEAD = "FROM NAMED :S [RANGE 20s] AS ?w"


@pytest.fixture
def at_ten(ask: Ask, at: At) -> Callable[[str], list[str]]:
    """The rows at second 10 of a window that holds `a at x` three times, `a in n` twice, `b at x` and `a in m`."""
    place, room = "http://ex.org/at", "<http://ex.org/in>"
    stream = [at(1, "a", "x"), at(2, "a", "x"), at(3, "b", "x"), at(4, "a", "x"), at(10, "z", "z")]
    assert stream[0].triples[0][1] == f"<{place}>"
    stream += [Element(t, (("<http://ex.org/a>", room, f"<http://ex.org/{m}>"),)) for t, m in ((5, "m"), (6, "n"), (7, "n"))]

    def rows(text: str) -> list[str]:
        found = ask(text.replace("FROM W", HEAD), SNAPSHOT, stream, default=["a likes c", "a likes d"])
        return [line.removeprefix("10 = ") for line in found if line.startswith("10 = ")]

    return rows


CASES = {
    "one pattern": ("SELECT ?p FROM W { GRAPH ?w { ?p :at :x } }", ["a", "a", "a", "b"]),
    "patterns of one group join as bags": (
        "SELECT ?m FROM W { GRAPH ?w { :a :at :x . :a :in ?m } }",
        ["m", "m", "m", "n", "n", "n", "n", "n", "n"],
    ),
    "semicolon and comma": ("SELECT (COUNT(*) AS ?k) FROM W { GRAPH ?w { :a :at :x ; :in :m , ?n . } }", ["9"]),
    "blank nodes are variables": ("SELECT (COUNT(*) AS ?k) FROM W { GRAPH ?w { _:b :at ?x . _:b :in :n } }", ["6"]),
    "blank node properties": ("SELECT (COUNT(*) AS ?k) FROM W { GRAPH ?w { [] :at ?x . [ :in :n ] :at ?y } }", ["30"]),
    "star shows no blank node": ("SELECT * FROM W { GRAPH ?w { [ :in :m ] :at ?x } }", ["x", "x", "x"]),
    "distinct": ("SELECT DISTINCT ?p FROM W { GRAPH ?w { ?p :at :x } }", ["a", "b"]),
    "distinct star": ("SELECT DISTINCT * FROM W { GRAPH ?w { ?p :at :x } }", ["a", "b"]),
    "distinct star shows no blank node": ("SELECT DISTINCT * FROM W { GRAPH ?w { ?p :at [] } }", ["a", "b", "z"]),
    "a language with a direction": ("SELECT ?p FROM W { GRAPH ?w { ?p :at 'x'@ar--rtl } }", []),
    "count distinct": ("SELECT (COUNT(DISTINCT ?p) AS ?k) FROM W { GRAPH ?w { ?p :at :x } }", ["2"]),
    "with static data": ("SELECT ?f FROM W { GRAPH ?w { ?p :at :x } ?p :likes ?f }", ["c", "c", "c", "d", "d", "d"]),
    "optional, the left twice": (
        "SELECT ?p ?m FROM W { GRAPH ?w { ?p :at :x } OPTIONAL { GRAPH ?w { ?p :in ?m } FILTER(?m = :n) } }",
        ["b", "n a", "n a", "n a", "n a", "n a", "n a"],
    ),
    "optional inside the window": ("SELECT (COUNT(*) AS ?k) FROM W { GRAPH ?w { ?p :at :x OPTIONAL { ?p :in ?m } } }", ["10"]),
    "minus does not multiply": ("SELECT ?p FROM W { GRAPH ?w { ?p :at :x } MINUS { GRAPH ?w { ?p :in :n } } }", ["b"]),
    "minus inside the window": ("SELECT ?p FROM W { GRAPH ?w { ?p :at :x MINUS { ?p :in :n } } }", ["b"]),
    "exists does not multiply": ("SELECT ?p FROM W { GRAPH ?w { ?p :at :x FILTER EXISTS { ?p :in :n } } }", ["a", "a", "a"]),
    "not exists": ("SELECT ?p FROM W { GRAPH ?w { ?p :at :x } FILTER NOT EXISTS { GRAPH ?w { ?p :in :n } } }", ["b"]),
    "union adds": ("SELECT ?p FROM W { GRAPH ?w { { ?p :at :x } UNION { ?p :in :n } } }", ["a", "a", "a", "a", "a", "b"]),
    "sub-select inside the window": (
        "SELECT ?p ?k FROM W { GRAPH ?w { { SELECT ?p (COUNT(*) AS ?k) { ?p :at :x } GROUP BY ?p } } }",
        ["1 b", "3 a"],
    ),
    "sub-select around the window": (
        "SELECT ?k FROM W { { SELECT (SUM(?one) AS ?k) { GRAPH ?w { ?p :at :x } BIND(1 AS ?one) } } }",
        ["4"],
    ),
    "values and bind inside": (
        'SELECT ?p ?n FROM W { GRAPH ?w { VALUES ?p { :a :c } ?p :in ?m BIND("." AS ?n) FILTER(?m IN (:n)) } }',
        [". a", ". a"],
    ),
    "a static graph inside the window": ("SELECT ?p FROM W { GRAPH ?w { ?p :in :n GRAPH :none { ?p :at :x } } }", []),
    "literals with tag, type and sign": (
        'SELECT ?p FROM W { GRAPH ?w { ?p :at :x OPTIONAL { ?p :is "x"@en, "y"^^:t, -3, +2.5e0, true } } }',
        ["a", "a", "a", "b"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_window_is_a_bag(case: str, at_ten: Callable[[str], list[str]]) -> None:
    text, expected = CASES[case]
    assert sorted(at_ten(text)) == sorted(expected)


def test_distinct_rows_with_blank_nodes_are_not_counted(at_ten: Callable[[str], list[str]]) -> None:
    assert at_ten("SELECT (COUNT(DISTINCT *) AS ?k) FROM W { GRAPH ?w { ?p :at ?x } }") == ["3"]
    with pytest.raises(QueryError, match="verify cannot count the distinct rows of a property path or of a blank node"):
        at_ten("SELECT (COUNT(DISTINCT *) AS ?k) FROM W { GRAPH ?w { ?p :at [] } }")


def test_set_semantics_on_request(ask: Ask, at: At) -> None:
    text = f"SELECT ?p {HEAD} {{ GRAPH ?w {{ ?p :at :x }} }}"
    stream = [at(1, "a", "x"), at(2, "a", "x"), at(23, "z", "z")]
    assert ask(text, Options(), stream) == ["1 + a", "2 + a"]
    assert ask(text, Options(duplicates="set"), stream) == ["1 + a"]
    assert ask(text, Options(duplicates="set", operator="dstream"), stream) == ["22 - a"]
    assert ask(text, Options(operator="dstream"), stream) == ["21 - a", "22 - a"]


def test_without_repetition_the_text_stays_as_it_is() -> None:
    text = "SELECT ?p { GRAPH <urn:cqels-opt:window:w> { ?p ?q ?o ; ?r ?s } } # as written"
    assert over_copies(text, {"w": 1}, None, None) == text


PATHS = {
    "a sequence is a join of bags": (":a (:at/^:at) ?x", ["a"] * 9 + ["b"] * 3),
    "alternatives are a union of bags": (":a (:at|:in) ?x", ["m"] + ["n"] * 2 + ["x"] * 3),
    "a negated set matches each triple": (":a !:in ?x", ["x"] * 3),
    "and its inverse members backward": (":x !(:in|^:in) ?x", ["a"] * 3 + ["b"]),
    "repeated steps reach a node once": (":a (:at|^:at)+ ?x", ["a", "b", "x"]),
    "a constant is there without a step": (":nobody :at* ?x", ["nobody"]),
    "and once if it is reached too": (":a (:at/^:at)* ?x", ["a", "b"]),
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_over_repeated_triples(path: str, at_ten: Callable[[str], list[str]]) -> None:
    pattern, expected = PATHS[path]
    assert at_ten(f"SELECT ?x FROM W {{ GRAPH ?w {{ {pattern} }} }}") == expected
