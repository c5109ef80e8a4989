"""The worked examples of SEMANTICS §5, on the independent evaluation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Bgp, Query, Window
from cqels_opt.verify import Element, Inputs, Options, evaluate

Ask = Callable[..., list[str]]
TWO = "SELECT ?p ?q ?l FROM NAMED :S [NOW] AS ?n FROM NAMED :S [RANGE 5s] AS ?w { GRAPH ?n { ?p :at ?l } GRAPH ?w { ?q :at ?l } }"
COUNT = "SELECT ?l (COUNT(*) AS ?k) FROM NAMED :S [RANGE 5s] AS ?w { GRAPH ?w { ?p :at ?l } } GROUP BY ?l"
LAST = "SELECT ?p ?l FROM NAMED :S [TRIPLES 2] AS ?w { GRAPH ?w { ?p :at ?l } }"
OPTIONAL = """SELECT ?p ?l ?q FROM NAMED :S [RANGE 2s] AS ?v FROM NAMED :S [RANGE 5s] AS ?w
{ GRAPH ?v { ?p :at ?l } OPTIONAL { GRAPH ?w { ?q :at ?l } FILTER(?q != ?p) } }"""


def test_e1_two_windows(ask: Ask) -> None:
    """Rows are ?l ?p ?q."""
    assert ask(TWO) == ["1 + x a a", "3 + x b a", "3 + x b b", "6 + y a a", "9 + y c a", "9 + y c c"]


def test_e2_an_expiry_is_a_content_change(ask: Ask) -> None:
    seen = ["1 + 1 x", "3 + 2 x", "6 + 1 x", "6 + 1 y", "9 + 2 y"]
    assert ask(COUNT) == seen
    assert ask(COUNT, Options(drain=True)) == [*seen, "11 + 1 y"]
    assert "8 - 1 x" in ask(COUNT, Options(operator="dstream"))


def test_e5_last_elements(ask: Ask) -> None:
    assert ask(LAST) == ["1 + x a", "3 + x b", "6 + y a", "9 + y c"]
    assert ask(LAST, Options(operator="dstream")) == ["6 - x a", "9 - x b"]
    with pytest.raises(InputError, match="drain"):
        ask(LAST, Options(drain=True))


def test_e6_optional(ask: Ask) -> None:
    """Rows are ?l ?p ?q; ?q is unbound if there is nobody else."""
    assert ask(OPTIONAL) == ["1 + x a", "3 + x b a", "6 + y a", "9 + y c a"]


@pytest.mark.parametrize(
    ("kind", "drain", "expected"),
    [
        ("open-closed", False, [(6, "a y"), (6, "b x"), (8, "a y")]),
        ("open-closed", True, [(6, "a y"), (6, "b x"), (8, "a y"), (10, "a y"), (10, "c y"), (12, "c y")]),
        ("closed-open", False, [(6, "a x"), (6, "b x"), (8, "a y"), (8, "b x")]),
    ],
)
def test_e3_e4_window_close(world: list[Element], kind: str, drain: bool, expected: list[tuple[int, str]]) -> None:
    """RSP-QL windows; the query is built without a parser."""
    window = Window("w", "http://ex.org/S", kind, 5000, 2000)  # type: ignore[arg-type]
    text = "SELECT ?p ?l { GRAPH ?w { ?p <http://ex.org/at> ?l } }"
    query = Query(text, "cqels", (), Bgp(()), (window,), ())
    options = Options(policy="wc", operator="rstream", duplicates="set", t0=1000, drain=drain)
    found = evaluate(query, Inputs({"http://ex.org/S": world}), options)
    rows = {(time // 1000, " ".join(term[-2] for _, term in sorted(row, reverse=True))) for time, _, row in found}
    assert rows == set(expected)
