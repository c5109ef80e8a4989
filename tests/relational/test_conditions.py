"""Conditions of an adaptive join: their keys, and the relations that they read."""

from __future__ import annotations

import pytest

from cqels_opt.errors import InputError
from cqels_opt.relational.conditions import JoinKey, parsed, without_comments


def test_equalities_of_two_relations_are_keys() -> None:
    found = parsed("Contacts.loc = places.Loc AND contacts.`the person` = pairs.p.one", "on")
    assert [condition.keys for condition in found] == [
        (JoinKey("contacts", ("loc",), "`contacts`.`loc`"), JoinKey("places", ("loc",), "`places`.`loc`")),
        (JoinKey("contacts", ("the person",), "`contacts`.`the person`"), JoinKey("pairs", ("p", "one"), "`pairs`.`p`.`one`")),
    ]
    assert str(found[1].keys[1]) == "pairs.p.one"  # type: ignore[index]


@pytest.mark.parametrize("text", ["lower(S.v) = d.n", "(lower(S.v) = d.n)", "((lower(S.v)=(d.n)))"])
def test_expressions_over_one_relation_are_keys(text: str) -> None:
    (condition,) = parsed(text, "on")
    assert condition.keys is not None
    one, other = condition.keys
    assert (one.relation, one.sql, str(one)) == ("s", "lower(S.v)", "lower(S.v)")
    assert (other.relation, other.label) == ("d", ("n",))


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("v.b = (p.b IS NULL)", ("`v`.`b`", "(p.b IS NULL)")),
        ("(((v.k)) = ((NOT p.b)))", ("`v`.`k`", "((NOT p.b))")),
    ],
)
def test_brackets_around_an_expression_stay(text: str, sql: tuple[str, str]) -> None:
    """Without them ``v.b = p.b IS NULL`` would be another condition."""
    (condition,) = parsed(text, "on")
    assert condition.keys is not None
    assert tuple(key.sql for key in condition.keys) == sql


@pytest.mark.parametrize(
    "text",
    [
        "x.f = y.f < y.g",
        "x.f >= x.g = y.f",
        "x.f = y.f IN (true)",
        "x.f = y.f NOT IN (true)",
        "x.a = y.b BETWEEN 1 AND 2",
        "x.a = y.s LIKE 'a%'",
    ],
)
def test_comparisons_next_to_an_equality_leave_no_keys(text: str) -> None:
    """Spark compares ``x.f = y.f`` with what follows, and the parser takes ``y.f < y.g`` for the right side."""
    (condition,) = parsed(text, "on")
    assert (condition.text, condition.keys) == (text, None)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("v.k = s.k AND v.at < s.end AND v.item = s.item", [True, False, True]),
        ("v.between = s.in AND v.case = s.like AND v.and = s.Case", [True, True, True]),
        ("v.at BETWEEN s.start AND s.end AND v.k = s.k", [False, True]),
        ("v.p.end = s.p.case AND CASE WHEN s.end > 1 THEN s.case ELSE s.when END AND v.k = s.k", [True, False, True]),
        ("end.k = v.k AND v.q = end.q AND CASE WHEN end.x THEN v.y END", [True, True, False]),
        ("case.k = v.k AND v.q = case.q", [True, True]),
    ],
)
def test_names_may_be_keywords(text: str, parts: list[bool]) -> None:
    """Which parts are equalities of keys."""
    assert [condition.keys is not None for condition in parsed(text, "on")] == parts


def test_functions_named_as_operators_are_keys() -> None:
    (condition,) = parsed("x.a = div(y.b, 1)", "on")
    assert condition.keys is not None and condition.keys[1].sql == "div(y.b, 1)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v.id -- the id", "v.id"),
        ("v.k /* of v */ = p.k -- c\nAND v.s = '-- no'", "v.k = p.k AND v.s = '-- no'"),
        ("v.s = '--'", "v.s = '--'"),
        ("v.s = '-- /*", "v.s = '-- /*"),
    ],
)
def test_comments_are_left_out(text: str, expected: str) -> None:
    assert without_comments(text) == expected


@pytest.mark.parametrize(
    "text",
    ["a.x < b.y", "a.x = 3", "a.x = a.y", "a.x <=> b.y", "a.x = b.y OR a.z = b.z", "a.x + b.x = c.x", "(a.x = b.y) = true"],
)
def test_other_conditions_have_no_keys(text: str) -> None:
    assert [condition.keys for condition in parsed(text, "on")] == [None]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = b.y", r"name the relation of the column x, as in relation\.x"),
        ("a.x = = b.y", "this is no condition at column"),
        ("a.x = (SELECT max(y) FROM t)", "it is no query, and holds none"),
        ("", "this is no condition"),
    ],
)
def test_what_is_no_condition(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parsed(text, "on")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.x > 3", [("a.x > 3", {"a"})]),
        ("a.x > 3 and B.y rlike '^x AND y'", [("a.x > 3", {"a"}), ("B.y rlike '^x AND y'", {"b"})]),
        ("a.x BETWEEN 1 AND 2 AND a.y + b.z > 0", [("a.x BETWEEN 1 AND 2", {"a"}), ("a.y + b.z > 0", {"a", "b"})]),
        ("a.x = 1 OR b.y = 2 AND b.z = 3", [("a.x = 1 OR b.y = 2 AND b.z = 3", {"a", "b"})]),
        ("(a.x = 1 AND (b.y = 2))", [("a.x = 1", {"a"}), ("b.y = 2", {"b"})]),
        (
            "CASE WHEN a.x = 1 AND b.y = 2 THEN true ELSE false END AND b.z[0] = 1",
            [("CASE WHEN a.x = 1 AND b.y = 2 THEN true ELSE false END", {"a", "b"}), ("b.z[0] = 1", {"b"})],
        ),
        ("exists(a.xs, x -> x > b.y)", [("exists(a.xs, x -> x > b.y)", {"a", "b"})]),
    ],
)
def test_conditions_are_cut_at_their_outermost_ands(text: str, parts: list[tuple[str, set[str]]]) -> None:
    assert [(found.text, set(found.relations)) for found in parsed(text, "where")] == parts
