"""The specification of a join: variables from equalities, the query graph, and invalid combinations."""

from __future__ import annotations

import pytest

from cqels_opt.errors import InputError
from cqels_opt.relational.progress import EventTime
from cqels_opt.relational.spec import NOW, JoinInput, JoinSpec, window_of


def joined(*names: str, stream: str = "s") -> JoinSpec:
    """A stream and static relations."""
    spec = JoinSpec().relation(JoinInput(stream, False))
    for name in names:
        spec = spec.relation(JoinInput(name, True))
    return spec


def test_columns_that_are_equal_are_one_variable() -> None:
    spec = joined("a", "b").on("s.x = a.k").on("a.k = b.k AND s.y = b.y")
    assert {name: sorted(columns) for name, columns in spec.variables.items()} == {"x": ["a", "b", "s"], "y": ["b", "s"]}
    assert spec.equality("x", ["a"], ["b"]) == "`a`.`k` = `b`.`k`"
    assert {r.name: r.variables for r in spec.graph.relations} == {"s": {"x", "y"}, "a": {"x"}, "b": {"x", "y"}}


def test_variables_of_one_name_are_told_apart() -> None:
    spec = joined("a", "b").on("s.k = a.k AND a.x = b.x").on("a.k.k = b.k")
    assert sorted(spec.variables) == ["k", "k_k", "x"]
    two = joined("a", "b").on("a.k = b.k").on("s.j = a.j").on("s.k = b.l")
    assert sorted(two.variables) == ["j", "k", "k_2"]


def test_two_columns_of_a_relation_in_one_variable_are_a_filter_of_it() -> None:
    spec = joined("a").on("s.x = a.k AND s.y = a.k")
    assert list(spec.variables) == ["x"]
    assert spec.own_filters("s") == ("`s`.`x` = `s`.`y`",)
    assert spec.own_filters("a") == ()


def test_filters_stand_with_the_relations_that_they_read() -> None:
    spec = joined("a", "b").on("s.x = a.x AND a.y = b.y").where("a.n > 3 AND s.m < b.m").where("s.m < b.m")
    assert spec.own_filters("a") == ("a.n > 3",)
    (condition,) = spec.graph.filters
    assert spec.between == {condition.name: "s.m < b.m"}
    covers = {name: spec.graph.covered_filters(1 << spec.graph.index[name]) for name in ("s", "a", "b")}
    assert covers == {"s": 0, "a": 0, "b": 0}
    assert spec.graph.covered_filters(spec.graph.everything) == 1


def test_a_condition_on_no_relation_is_applied_once() -> None:
    spec = joined("a", "b").on("s.x = a.x AND a.y = b.y").where("rand() < 0.5")
    assert [spec.own_filters(name) for name in ("s", "a", "b")] == [("rand() < 0.5",), (), ()]


def test_an_equality_in_where_is_a_join_condition() -> None:
    spec = joined("a", "b").on("s.x = a.x").where("s.y = b.y AND a.n > 3")
    assert {name: sorted(of) for name, of in spec.variables.items()} == {"x": ["a", "s"], "y": ["b", "s"]}
    assert spec.between == {}


def test_the_right_side_of_an_outer_join_is_a_unit() -> None:
    spec = joined("a").relation(JoinInput("o", True, kind="optional")).on("s.x = a.x AND lower(a.n) = o.n AND o.k > s.k")
    spec = spec.where("o.z IS NULL")
    unit = spec.graph.relations[spec.graph.index["o"]]
    assert (unit.kind, unit.variables) == ("optional", {"lower_a_n", "o.*"})
    assert unit.requires == {"lower_a_n", "a.*", "s.*"}
    assert [c.text for c in spec.joined["o"]] == ["lower(a.n) = o.n", "o.k > s.k"]
    assert list(spec.between.values()) == ["o.z IS NULL"]


def test_conditions_of_a_left_join_on_its_left_side() -> None:
    """As in the ON of SQL; only equalities between two other relations join these."""
    spec = joined("a").relation(JoinInput("o", True, kind="optional")).on("s.x = a.x AND s.y = o.y AND s.z IS NULL AND a.w > s.w")
    assert [c.text for c in spec.joined["o"]] == ["s.y = o.y", "s.z IS NULL", "a.w > s.w"]
    assert [c.text for c in spec.conditions] == ["s.x = a.x"]
    assert spec.own_filters("s") == ()
    assert [c.text for c in spec.on("s.z IS NULL").conditions] == ["s.x = a.x", "s.z IS NULL"]


def test_relations_that_nothing_connects() -> None:
    spec = joined("a", "b", "c")
    assert spec.unconnected() == ("a", "b", "c")
    assert spec.on("b.x = c.x").where("s.x < 3 AND c.y < 3").unconnected() == ("a", "b", "c")
    assert spec.on("b.x = c.x").where("s.x < c.y").unconnected() == ("a",)
    assert spec.on("b.x = c.x AND c.z = a.z").where("s.x < c.y").unconnected() == ()


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [(None, None), ("now", NOW), ("30s", 30_000), ("1 hour", 3_600_000), ("PT5S", 5_000), (30_000, 30_000)],
)
def test_windows(text: int | str | None, milliseconds: int | None) -> None:
    assert window_of(text) == milliseconds


@pytest.mark.parametrize("text", ["30", "30 lightyears", "0s", "", 0, -1, True])
def test_what_is_no_window(text: int | str) -> None:
    with pytest.raises(InputError, match="window="):
        window_of(text)


def test_what_does_not_fit_together() -> None:
    spec = joined("a")
    with pytest.raises(InputError, match="there is a relation of this name already"):
        spec.relation(JoinInput("A", True))
    with pytest.raises(InputError, match="a name is a letter"):
        spec.relation(JoinInput("my table", True))
    with pytest.raises(InputError, match="use another name"):
        spec.relation(JoinInput("time", True))
    with pytest.raises(InputError, match="there is no relation c; there are s, a"):
        spec.on("s.x = c.x")
    with pytest.raises(InputError, match="there is no relation c"):
        spec.where("c.x = 1")
    with pytest.raises(InputError, match="the stream is the left side"):
        spec.relation(JoinInput("w", False, kind="semi"))
    outer = spec.relation(JoinInput("o", True, kind="anti")).relation(JoinInput("p", True, kind="optional"))
    with pytest.raises(InputError, match="the answers of anti joins have no columns of o"):
        outer.where("o.x = 1")
    with pytest.raises(InputError, match="reads o and p, which are both right sides of joins; "):
        outer.on("o.x = p.x")
    with pytest.raises(InputError, match=r"s\.z IS NULL can belong to the join of o or of p: give each an on"):
        outer.on("s.x = o.x AND s.y = p.y AND s.z IS NULL")
    with pytest.raises(InputError, match=r"relation\('o'\): on\(…\) must compare it with another relation$"):
        outer.checked()
    with pytest.raises(InputError, match="none of the relations is over the stream"):
        JoinSpec().relation(JoinInput("a", True)).checked()
    with pytest.raises(InputError, match=r"relation\('s'\) needs a window, as w has one"):
        spec.relation(JoinInput("w", False, 1000, "t")).checked()
    twice = JoinSpec().relation(JoinInput("v", False, 1, "t", lateness=5)).relation(JoinInput("w", False, 1, "t", lateness=6))
    with pytest.raises(InputError, match="the relations v and w read the time t and differ in lateness: give it once"):
        twice.checked()
    idle = JoinSpec().relation(JoinInput("v", False, 1, "t", idle=5)).relation(JoinInput("w", False, 1, "t", idle=6))
    with pytest.raises(InputError, match="differ in idle_timeout"):
        idle.checked()


def test_relations_with_one_column_of_times_are_one_stream() -> None:
    spec = JoinSpec().relation(JoinInput("a", False, 1, "t")).relation(JoinInput("b", False, 9, "u", idle=7))
    spec = spec.relation(JoinInput("c", False, 5, "t", lateness=3)).checked()
    assert spec.event_times(20) == (EventTime("t", 3), EventTime("u", 20, 7))
