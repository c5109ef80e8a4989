from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import InputError
from cqels_opt.plans import (
    Cut,
    FilterNode,
    Join,
    Optimizer,
    PlanError,
    Probe,
    QueryGraph,
    Scan,
    Split,
    check,
    filters,
    operators,
    parse_plan,
    parse_planned,
    parse_plans,
)
from cqels_opt.plans.plan import written_order

from .graphs import q2, random_graph, random_statistics, relation

BUSHY = "lsnow » (a » b[?x])[?y] » w#1[]"


def test_the_text_of_a_plan_is_its_tree() -> None:
    tree = Probe(Join(Scan("lsnow"), Probe(Scan("a"), "b", ("x",)), ("y",)), "w#1", ())
    assert str(tree) == BUSHY
    assert parse_plan(BUSHY) == tree


def test_typed_plans_may_be_untidy() -> None:
    assert str(parse_plan(" lsnow>>(a  >>b[ ?x ])[?z ?y]>>w#1[]")) == "lsnow » (a » b[?x])[?y ?z] » w#1[]"
    assert parse_plans("s: s » a[?x] ;\n t:t » s[?x];") == parse_plans("s: s » a[?x]; t: t » s[?x]")
    assert list(parse_plans("t:t » s[?x]; s: s")) == ["t", "s"]


def test_a_split_has_two_plans_and_a_cut() -> None:
    text = "s: s » a[?x] » b[?y] | a[?x] >= 8: s » b[?y] » a[?x]; t: t » s[?x]"
    plans = parse_plans(text)
    assert plans["s"] == Split(parse_plan("s » a[?x] » b[?y]"), Cut("a", "x", 8), parse_plan("s » b[?y] » a[?x]"))
    assert "; ".join(f"{source}: {plan}" for source, plan in plans.items()) == text
    assert str(parse_planned(" s>>a[?x]|a[?x]>= 8 :s >> a[?x] ")) == "s » a[?x] | a[?x] >= 8: s » a[?x]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s » a[?x] |", "plan, column 12: the relation that the delta is split by expected, but the end found"),
        ("s » a[?x] | a[]: s", "plan, column 15: a variable expected, but ']' found"),
        ("s » a[?x] | a[?x ?y] >= 8: s", "plan: a delta is split by one variable, not by a[?x ?y]"),
        ("s » a[?x] | a[?x] >= few: s", "a number of rows expected, but 'few' found"),
        ("s » a[?x] | a[?x] >= 8 s", "':' expected, but 's' found"),
    ],
)
def test_a_split_that_is_mistyped(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_planned(text)
    assert message in str(caught.value)


def test_a_delta_is_split_by_what_it_joins_with() -> None:
    graph = QueryGraph([relation("s", "x", dynamic=True), relation("a", "x y"), relation("b", "y")])
    plan = parse_plan("s » a[?x] » b[?y]")
    check(Split(plan, Cut("a", "x", 2), plan), graph, "s")
    for name, variable in (("b", "y"), ("a", "y"), ("s", "x"), ("c", "x")):
        with pytest.raises(PlanError, match="a split is by a relation that s joins with"):
            check(Split(plan, Cut(name, variable, 2), plan), graph, "s")


@pytest.mark.long
@given(st.randoms(use_true_random=False))
def test_every_plan_can_be_parsed_back_and_fits_its_graph(rng: random.Random) -> None:
    graph = random_graph(rng, connected=rng.random() < 0.7)
    sources = [r.name for r in graph.relations]
    optimizer = Optimizer(graph, sources)
    optimizer.choose({source: random_statistics(rng, graph) for source in sources})
    for source in sources:
        for ranked in optimizer.alternatives(source, 5):
            check(ranked.plan, graph, source)
            assert parse_plan(str(ranked.plan)) == ranked.plan
        check(written_order(graph, source), graph, source)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "plan, column 1: the name of a delta source expected, but the end found"),
        ("lsnow", "plan, column 6: ':' expected, but the end found in 'lsnow'"),
        ("s: s »", "plan, column 7: the name of a relation or '(' expected, but the end found in 's: s »'"),
        ("s: s » a", "plan, column 9: '[' expected, but the end found in 's: s » a'"),
        ("s: s » a[x]", "plan, column 10: a variable or ']' expected, but 'x' found in 's: s » a[x]'"),
        ("s: s » (a » b[?x]", "plan, column 18: '»' or ')' expected, but the end found in 's: s » (a » b[?x]'"),
        (
            "s: s » a[?x] b[?x]",
            "plan, column 14: '»', '&', '|', ';' or the end of the plan expected, but 'b' found in 's: s » a[?x] b[?x]'",
        ),
        ("s: s, t", "plan, column 5: ',' is not expected here; a plan reads like 'w » a[?x] » b[?y]'"),
        ("s: s; s: s", "plans: delta source 's' has two plans"),
    ],
)
def test_wrong_texts_are_told_where(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plans(text)
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, InputError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lsnow » nowhere[?x]", "there is no relation 'nowhere'; the query has lsnow, ls30, loc_name"),
        ("ls30 » lsnow[?loc] » loc_name[?loc]", "it begins with 'ls30' but must begin with its delta source 'lsnow'"),
        ("lsnow » ls30[?loc]", "relation 'loc_name' is missing"),
        ("lsnow » ls30[?loc] » ls30[?loc] » loc_name[?loc]", "relation 'ls30' occurs twice"),
        ("lsnow » ls30[] » loc_name[?loc]", "ls30[] must join on [?loc], what both sides bind"),
        (
            "lsnow » (ls30 » loc_name[?loc])[?loc ?p]",
            "(ls30 » loc_name[?loc])[?loc ?p] must join on [?loc], what both sides bind",
        ),
    ],
)
def test_plans_that_do_not_fit_are_refused(text: str, message: str) -> None:
    graph = QueryGraph([relation("lsnow", "p loc", True), relation("ls30", "q loc", True), relation("loc_name", "loc name")])
    with pytest.raises(PlanError, match=r"^plan of lsnow: ") as caught:
        check(parse_plan(text), graph, "lsnow")
    assert message in str(caught.value)


def test_operators_come_in_the_order_they_run() -> None:
    steps = [(step.op, step.relation, step.on) for step in operators(parse_plan(BUSHY))]
    assert steps == [
        ("scan", "lsnow", ()),
        ("scan", "a", ()),
        ("probe", "b", ("x",)),
        ("hash", "(a » b[?x])", ("y",)),
        ("cross", "w#1", ()),
    ]
    assert operators(parse_plan(BUSHY))[3].covers == {"lsnow", "a", "b"}


def test_filters_are_evaluated_where_their_variables_are_bound() -> None:
    graph = QueryGraph(
        [relation("s", "x", True), relation("a", "x y"), relation("b", "y z")],
        [FilterNode("of s", frozenset("x")), FilterNode("of a", frozenset("y")), FilterNode("of both", frozenset("xz"))],
    )
    assert filters(parse_plan("s » a[?x] » b[?y]"), graph) == [("of s",), ("of a",), ("of both",)]
    assert filters(parse_plan("s » (b » a[?y])[?x]"), graph) == [("of s",), ("of a",), ("of s", "of both"), ()]


def test_the_written_order_prefers_what_is_connected() -> None:
    graph = QueryGraph([relation("a", "x"), relation("b", "y"), relation("c", "y z"), relation("d", "z x")])
    assert str(written_order(graph, "b")) == "b » c[?y] » d[?z] » a[?x]"
    assert str(written_order(q2(), "ls30")) == (
        "ls30 » lsnow[?loc] » loc_name[?loc] » coauthor[?person1 ?person2] » name#1[?person1] » name#2[?person2]"
    )
    apart = QueryGraph([relation("a", "x"), relation("b", "y"), relation("c", "y")])
    assert str(written_order(apart, "a")) == "a » b[] » c[?y]"
