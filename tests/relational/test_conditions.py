"""Conditions of an adaptive join: join equalities, and the relations that a filter reads."""

from __future__ import annotations

import pytest

from cqels_opt.errors import InputError
from cqels_opt.relational.conditions import ColumnReference, equalities, filters


def test_equalities() -> None:
    found = equalities("Contacts.loc = places.Loc AND contacts.`the person` = pairs.p.one")
    assert found == [
        (ColumnReference("contacts", ("loc",)), ColumnReference("places", ("loc",))),
        (ColumnReference("contacts", ("the person",)), ColumnReference("pairs", ("p", "one"))),
    ]
    assert found[1][0].sql == "`contacts`.`the person`"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a.x < b.y", r"a\.x < b\.y is no equality of columns of two relations; other conditions go to where"),
        ("a.x = b.y AND a.x = 3", r"a\.x = 3 is no equality"),
        ("a.x = a.y", "no equality of columns of two relations"),
        ("a.x <=> b.y", "no equality"),
        ("a.x = b.y OR a.z = b.z", "no equality"),
        ("x = b.y", r"say of which relation the column x is, as in relation\.x"),
        ("a.x = = b.y", "this is no condition at column"),
        ("a.x = (SELECT max(y) FROM t)", "it is no query, and holds none"),
        ("", "this is no condition"),
    ],
)
def test_what_is_no_equality(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        equalities(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.x > 3", [("a.x > 3", {"a"})]),
        ("a.x > 3 and B.y rlike '^x AND y'", [("a.x > 3", {"a"}), ("B.y rlike '^x AND y'", {"b"})]),
        ("a.x BETWEEN 1 AND 2 AND a.y + b.z > 0", [("a.x BETWEEN 1 AND 2", {"a"}), ("a.y + b.z > 0", {"a", "b"})]),
        ("a.x = 1 OR b.y = 2 AND b.z = 3", [("a.x = 1 OR b.y = 2 AND b.z = 3", {"a", "b"})]),
        ("(a.x = 1 AND b.y = 2)", [("(a.x = 1 AND b.y = 2)", {"a", "b"})]),
        (
            "CASE WHEN a.x = 1 AND b.y = 2 THEN true ELSE false END AND b.z[0] = 1",
            [("CASE WHEN a.x = 1 AND b.y = 2 THEN true ELSE false END", {"a", "b"}), ("b.z[0] = 1", {"b"})],
        ),
        ("exists(a.xs, x -> x > b.y)", [("exists(a.xs, x -> x > b.y)", {"a", "b"})]),
    ],
)
def test_filters_are_cut_at_their_outermost_ands(text: str, parts: list[tuple[str, set[str]]]) -> None:
    assert [(found.text, set(found.relations)) for found in filters(text)] == parts


def test_a_filter_says_of_which_relation_its_columns_are() -> None:
    with pytest.raises(InputError, match=r"where\('a\.x > y'\): say of which relation the column y is"):
        filters("a.x > y")
