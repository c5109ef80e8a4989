"""Free-connex queries, and the least height of their join trees."""

from __future__ import annotations

import random

import pytest

from cqels_opt.plans import FilterNode, QueryGraph, RelationNode, parse_plan
from cqels_opt.plans.cycles import is_cyclic
from cqels_opt.plans.free_connex import described, height


def graph_of(words: list[str], filters: tuple[FilterNode, ...] = ()) -> QueryGraph:
    """A relation per word, over the variables that are its letters."""
    return QueryGraph([RelationNode(word, frozenset(word), True) for word in words], filters)


@pytest.mark.parametrize(
    ("relations", "output", "expected"),
    [
        ("ax bx cx", "abcx", 1),
        ("ab bc", "ab", 1),
        ("ab bc", "ac", None),  # equal answers come from many values of b
        ("ab bc cd", "abcd", 2),
        ("ab bc cd de", "abcde", 2),  # c as the root
        ("ab bc cd de ef", "abcdef", 3),
        ("ab bc ca", "abc", None),
        ("ab cd", "abcd", 1),
    ],
)
def test_the_height_of_a_query(relations: str, output: str, expected: int | None) -> None:
    assert height(graph_of(relations.split()), output) == expected


def test_free_connex_and_q_hierarchical_queries() -> None:
    """A query has a height if it and its output have no cycle, and height 1 if it is q-hierarchical (Berkholz et al. 2017)."""
    rng, found = random.Random(1), dict.fromkeys((None, 1, 2, 3), 0)
    for _ in range(1500):
        letters = "abcdef"[: rng.randint(2, 6)]
        words = ["".join(rng.sample(letters, rng.randint(1, min(3, len(letters))))) for _ in range(rng.randint(1, 5))]
        words = [*dict.fromkeys(words)]
        bound = sorted(set("".join(words)))
        output = set(bound) if rng.random() < 0.4 else set(rng.sample(bound, rng.randint(0, len(bound))))
        at = {x: {word for word in words if x in word} for x in bound}
        hierarchical = all(at[x] <= at[y] or at[y] <= at[x] or not at[x] & at[y] for x in bound for y in bound)
        read_first = all(y in output for x in output for y in bound if at[x] < at[y])
        with_output = graph_of([*words, "".join(output)] if output and output not in map(set, words) else words)
        least = height(graph_of(words), output)
        assert (least is None) == (is_cyclic(graph_of(words)) or is_cyclic(with_output)), (words, output)
        assert (least == 1) == (hierarchical and read_first), (words, output)
        found[least] = found.get(least, 0) + 1
    assert min(found[least] for least in (None, 1, 2, 3)) > 5


def test_the_work_per_row() -> None:
    pair, path = graph_of(["ax", "bx"]), graph_of(["ab", "bc", "cd"])
    assert (
        described(parse_plan("ax » bx[?x]"), pair, "abx") == "look-ups, its answers, whatever the size of the windows (height 1)"
    )
    assert described(parse_plan("bc » ab[?b] » cd[?c]"), path, "abcd") == (
        "look-ups, its answers, whatever the size of the windows (height 2)"
    )
    assert described(parse_plan("ab » bc[?b] » cd[?c]"), path, "ad") == (
        "look-ups, its answers, and the rows that it meets in bc (height 2, not free-connex: equal answers are made one by one)"
    )


@pytest.mark.parametrize("text", ["ab » (cd » bc[?c])[?b]", "ab » bc[?b] » ac[?a ?c]"])
def test_no_work_per_row_is_derived_for_bushy_plans_and_probes_on_two_variables(text: str) -> None:
    graph = graph_of(["ab", "bc", "ac"] if "ac" in text else ["ab", "bc", "cd"])
    assert described(parse_plan(text), graph, "abcd") is None


def test_conditions_drop_rows_that_are_no_answers() -> None:
    graph = graph_of(["ax", "bx"], (FilterNode("a != b", frozenset("ab")),))
    assert described(parse_plan("ax » bx[?x]"), graph, "abx") is None


def test_many_relations_have_no_height() -> None:
    assert height(graph_of([f"{chr(97 + i)}{chr(98 + i)}" for i in range(13)]), "abcdefghijklmn") is None
