"""Long chains run as any other query; nests and joins beyond the limits are refused in one sentence that names the limit."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, World, register
from random_cases import EX

from cqels_opt.compiler.compile import MOST_JOINS
from cqels_opt.errors import QueryError
from cqels_opt.planner.explain import explained
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.query.parser import parse
from cqels_opt.query.printing.queries import to_text
from cqels_opt.query.texts import Reader
from cqels_opt.verify import Element

MANY = 4000
A, B, C, AT = (f"<{EX}{name}>" for name in ("a", "b", "c", "at"))
NEAR = f"<{EX}near>"


def world() -> World:
    return World({f"{EX}S": [[Element(1, ((A, AT, B),)), Element(2, ((C, AT, A),))]]}, [(A, NEAR, C), (B, NEAR, A)])


def query(body: str) -> str:
    return f"PREFIX : <{EX}> SELECT * {{ STREAM :S [RANGE 5s] {{ ?a :at ?x }} {body} }}"


def nested(before: str, inside: str, after: str, levels: int) -> str:
    return before * levels + inside + after * levels


@pytest.mark.parametrize(
    "body",
    [
        " ".join(f"BIND({i} AS ?v{i})" for i in range(MANY)),
        "OPTIONAL { ?a :near ?c } " * MANY,
        "MINUS { ?a :near ?c } " * MANY,
        nested("OPTIONAL { ?a :near ?b ", "", "}", MANY),
        nested("{ ", "?a :near ?b", "} UNION { ?a :at ?b }", MANY),
        nested("{", "?a :near ?b", "}", MANY),
        f"FILTER({nested('!(', '?a = ?x', ')', MANY)})",
        f"FILTER({nested('(', '?a = ?x', ')', 100_000)})",
        f"FILTER({' + '.join(['?a'] * MANY)} > 1)",
    ],
    ids=["binds", "optionals", "minuses", "nested optionals", "nested unions", "groups", "nots", "brackets", "sums"],
)
def test_too_deep_a_query_is_refused_with_the_limit(body: str) -> None:
    with pytest.raises(QueryError, match=r"nested too deeply: .* 200 levels") as refused:
        Reader().read(query(body))
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("relations", [MOST_JOINS // 50, 1000])
def test_too_many_joined_patterns_are_refused_with_the_limit(relations: int, tmp_path: Path) -> None:
    patterns = " . ".join(f"?v{i} :at ?v{i + 1}" for i in range(relations))
    with pytest.raises(QueryError, match=f"{relations} patterns of windows .* at most"):
        register(f"PREFIX : <{EX}> SELECT ?v0 {{ STREAM :S [NOW] {{ {patterns} }} }}", world(), tmp_path)


DEEP = 190
LONG = 1_500
"""More than Python's limit of recursion; the independent evaluation is quadratic in the length of a chain."""


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [
        f"FILTER({' || '.join([f'?x = :y{i}' for i in range(LONG)] + ['?x = :b'])})",
        f"FILTER({' && '.join(f'?x != :y{i}' for i in range(LONG))})",
        " ".join(f"FILTER(?x != :y{i})" for i in range(500)),
        " UNION ".join(f"{{ ?x :near{i % 500 or ''} ?y }}" for i in range(1000)),
        f"?x {'|'.join([':near', *(f':near{i}' for i in range(500))])} ?y",
        f"FILTER(?x IN ({', '.join(f':y{i}' for i in range(10_000))}, :b))",
        f"VALUES ?x {{ :b {' '.join(f':y{i}' for i in range(20_000))} }}",
        " ".join(f"OPTIONAL {{ ?x :near ?o{i} }}" for i in range(90)),
        " ".join(f"BIND({i} AS ?v{i})" for i in range(DEEP)),
        f"FILTER({nested('(', '?x = :b', ')', 900)})",
        f"FILTER({nested('!(', '?x = :b', ')', DEEP)})",
        f"FILTER({' + '.join(['1'] * DEEP)} > 1)",
        nested("OPTIONAL { ?x :near ?y ", "", "}", 90),
    ],
    ids=[
        "or",
        "and",
        "filters",
        "unions",
        "alternatives",
        "in",
        "values",
        "optionals",
        "binds",
        "brackets",
        "nots",
        "sums",
        "nested optionals",
    ],
)
def test_long_chains_are_planned_explained_printed_and_right(body: str, tmp_path: Path) -> None:
    text = query(body)
    printed = to_text(parse(text), "cqels")
    assert to_text(parse(printed), "cqels") == printed
    ready = register(text, world(), tmp_path)
    assert explained([ready.program], plan_mode("adaptive"), "text", 0)
    assert ready.judged(ready.run(Cut("1")).answers).equal
