"""How often a query names its variables, and that telling takes work in proportion to the query."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from cqels_opt.compiler.variable_usage import mentions
from cqels_opt.query import algebra as a
from cqels_opt.query.parser import parse


def nested(depth: int) -> a.Algebra:
    """A chain of patterns, in which each level names a variable of its own and one that all name."""
    here = a.Variable("here")
    found: a.Algebra = a.Bgp(())
    for level in range(depth):
        found = a.Join(found, a.Bgp((a.TriplePattern(here, a.Constant("<http://ex.org/p>"), a.Variable(f"v{level}")),)))
    return found


def lines(depth: int) -> int:
    """The lines of Python that are run for a chain."""
    node, count = nested(depth), 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = mentions(node)
    finally:
        sys.settrace(before)
    assert found == Counter({"here": depth, **{f"v{level}": 1 for level in range(depth)}})
    return count


def test_the_work_grows_with_the_query_and_not_with_its_square() -> None:
    first, second = lines(80) - lines(40), lines(160) - lines(80)
    assert 0 < second < 2.1 * first  # twice as much, but for finalizers that the collector runs in between


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT ?s { ?s :p ?o }", {"s": 2, "o": 1}),
        ("SELECT ?s { ?s :p ?o FILTER(?o > ?s) }", {"s": 3, "o": 2}),
        ("SELECT ?s { ?s :p ?o } ORDER BY ?o", {"s": 3, "o": 3}),
        ("SELECT (COUNT(DISTINCT *) AS ?n) { ?s :p ?o }", {"s": 2, "o": 2}),
    ],
)
def test_what_reads_all_variables_names_each(select: str, expected: dict[str, int]) -> None:
    found = mentions(parse(f"PREFIX : <http://ex.org/> {select}").body)
    assert {name: found[name] for name in expected} == expected
