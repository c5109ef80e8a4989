"""Printing visits each part of a query a bounded number of times, for deeply nested groups and long chains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cqels_opt.query.parser import parse
from cqels_opt.query.printing import to_text

from .test_fuzz import calls

STREAM = "PREFIX : <http://e/> SELECT * FROM STREAM :S WINDOW ELEMS 9 "
NESTED: dict[str, Callable[[int], str]] = {
    "groups": lambda n: nest("?a :p ?b { ", n, " }"),
    "groups in a window of their own": lambda n: nest("?a :p ?b OPTIONAL { ", n, " }", " WINDOW ELEMS 3"),
    "windows in windows": lambda n: nest("?a :p ?b { ", n, " WINDOW ELEMS 4 }"),
    "filters": lambda n: nest("?a :p ?b FILTER EXISTS { ", n, " }"),
    "sub-selects in graphs": lambda n: nest("GRAPH ?g%d { ?a ?p ?b { SELECT ?a { ", n, " } LIMIT 3 } }"),
}
LONG: dict[str, Callable[[int], str]] = {
    "windows": lambda n: STREAM + "{ " + "".join(f"{{ ?a :p ?b WINDOW ELEMS {i + 1} }} " for i in range(n)) + "}",
    "streams": lambda n: (
        "PREFIX : <http://e/> SELECT * "
        + "".join(f"FROM NAMED STREAM :s{i} WINDOW ELEMS 3 " for i in range(n))
        + "{ "
        + "".join(f"GRAPH :s{i} {{ ?a :p ?b }} " for i in range(n))
        + "}"
    ),
    "optionals": lambda n: STREAM + "{ " + "OPTIONAL { ?a :p ?b } " * n + "}",
    "unions": lambda n: STREAM + "{ " + " UNION ".join(["{ ?a :p ?b }"] * n) + " }",
    "binds": lambda n: STREAM + "{ " + "".join(f"BIND({i} AS ?v{i}) " for i in range(n)) + "}",
    "blank nodes": lambda n: STREAM + "{ " + "?a :p [] . " * n + "}",
}


def nest(before: str, depth: int, after: str, end: str = "") -> str:
    """Nested groups; ``%d`` is the number of a group."""
    return f"{STREAM} {{ {''.join(before.replace('%d', str(i)) for i in range(depth))} ?a :q ?b {after * depth} {end} }}"


def steps(text: str) -> int:
    query = parse(text, "streaming-sparql")
    return calls(lambda: to_text(query, "streaming-sparql"))


@pytest.mark.parametrize("kind", NESTED)
def test_nested_groups(kind: str) -> None:
    few, many = (steps(NESTED[kind](n)) for n in (6, 24))
    assert many < 5 * few, (few, many)


@pytest.mark.parametrize("kind", LONG)
def test_long_chains(kind: str) -> None:
    few, many = (steps(LONG[kind](n)) for n in (50, 200))
    assert many < 5 * few, (few, many)


@pytest.mark.parametrize("kind", LONG)
def test_chains_are_no_recursion(kind: str) -> None:
    query = parse(LONG[kind](1200), "streaming-sparql")
    assert parse(to_text(query, "streaming-sparql"), "streaming-sparql").variables == query.variables
