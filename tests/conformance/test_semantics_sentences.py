"""Sentences of SEMANTICS that are in no table, on the engine, for any batches, plans and shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local_runs import Cut, Settings, World, register

from cqels_opt.query.parser import parse
from cqels_opt.verify import Element

from .conftest import EX, STREAM, short

CUTS = [Cut("1"), Cut("3", "random", 3, 3), Cut("100"), Cut("700ms", "worst", 1, 3)]
OTHER = f"{EX}T"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"


def told(
    folder: Path, text: str, *streams: list[Element], static: list[tuple[str, str, str]] | None = None, **how: Any
) -> list[str]:
    """The answers to a query over S, or S and T; an element with several files is one of S."""
    given = {STREAM: [streams[0]], **({OTHER: [streams[1]]} if len(streams) > 1 else {})}
    return asked(folder, text, World(given, static or []), **how)


def asked(folder: Path, text: str, world: World, cuts: Sequence[Cut] = CUTS, **how: Any) -> list[str]:
    query = register(parse(f"PREFIX : <{EX}> {text}"), world, folder, Settings(**{"operator": "rstream", **how}))
    outcomes = [query.run(cut).answers for cut in cuts]
    assert all(answers == outcomes[0] for answers in outcomes)
    verdict = query.judged(outcomes[0])
    assert verdict.equal, verdict.text()
    return short(outcomes[0])


def at(*seen: tuple[float, str, str]) -> list[Element]:
    return [Element(round(1000 * t), ((f"<{EX}{who}>", f"<{EX}at>", f"<{EX}{where}>"),)) for t, who, where in seen]


def knows(t: float, one: str, other: str) -> Element:
    return Element(round(1000 * t), ((f"<{EX}{one}>", f"<{EX}knows>", f"<{EX}{other}>"),))


IN_WINDOW = "SELECT ?p FROM NAMED :S [RANGE 2s] AS ?w { GRAPH ?w { ?p :at ?l } }"


# ------------------------------------------------------------------ §1
def test_elements_are_in_the_order_of_time_partition_and_offset(tmp_path: Path) -> None:
    """Of two files, the first one's elements of a time come first: its elements that arrived later replace others."""
    text = "SELECT ?p FROM NAMED :S [TRIPLES 2] AS ?w { GRAPH ?w { ?p :at ?l } }"
    world = World({STREAM: [at((1, "a", "x"), (2, "b", "x")), at((1, "c", "x"), (1, "d", "x"), (2, "e", "x"))]})
    assert asked(tmp_path, text, world) == ["1 = c", "1 = d", "2 = b", "2 = e"]


def test_element_windows_count_elements_not_triples(tmp_path: Path) -> None:
    both = Element(1000, tuple((f"<{EX}{who}>", f"<{EX}at>", f"<{EX}x>") for who in "ab"), f"<{EX}g>")
    text = "SELECT ?p FROM NAMED :S [TRIPLES 2] AS ?w { GRAPH ?w { ?p :at ?l } }"
    assert told(tmp_path, text, [both, *at((2, "c", "x"))]) == ["1 = a", "1 = b", "2 = a", "2 = b", "2 = c"]


def test_an_elements_graph_is_a_set_and_the_window_a_bag_of_elements(tmp_path: Path) -> None:
    """A triple that occurs twice in one element counts once; in two elements, twice. (A replay never splits an element.)"""
    same = (f"<{EX}a>", f"<{EX}at>", f"<{EX}x>")
    elements = [Element(1000, (same, same), f"<{EX}g>"), Element(2000, (same,))]
    found = told(tmp_path / "bag", IN_WINDOW, elements, cuts=[Cut("1"), Cut("100", "worst", 1, 3)])
    assert found == ["1 = a", "2 = a", "2 = a"]
    assert told(tmp_path / "set", IN_WINDOW, elements, duplicates="set") == ["1 = a", "2 = a"]


def test_a_past_range_with_a_slide_closes_at_t0_and_its_beginning_and_slides(tmp_path: Path) -> None:
    """With `[NOW - 3 S TO NOW - 1 S SLIDE 2 S]` and t0 = 500: at 3.5, 5.5, … ."""
    text = "SELECT ?p FROM STREAM :S [NOW - 3 S TO NOW - 1 S SLIDE 2 S] { ?p :at ?l }"
    elements = at((1, "a", "x"), (3, "b", "x"), (5, "c", "x"))
    found = told(tmp_path, text, elements, policies={"": "wc"}, t0={"": 500}, drain=True, duplicates="set")
    assert found == ["3.5 = a", "5.5 = b", "7.5 = c"]


# ------------------------------------------------------------------ §2
def test_left_join_minus_and_not_exists_split_the_intervals_of_their_rows(tmp_path: Path) -> None:
    """`a at x` lives [1, 5); `a knows b` [2, 4)."""
    head = "SELECT ?p ?q FROM NAMED :S [RANGE 4s] AS ?w FROM NAMED :T [RANGE 2s] AS ?z "
    for name, body, expected in (
        ("optional", "GRAPH ?w { ?p :at ?l } OPTIONAL { GRAPH ?z { ?p :knows ?q } }", ["1 + a", "2 + a b", "4 + a"]),
        ("minus", "GRAPH ?w { ?p :at ?l } MINUS { GRAPH ?z { ?p :knows ?o } }", ["1 + a", "4 + a"]),
        ("not exists", "GRAPH ?w { ?p :at ?l } FILTER NOT EXISTS { GRAPH ?z { ?p :knows ?o } }", ["1 + a", "4 + a"]),
    ):
        folder, text = tmp_path / name, head + "{ " + body + " }"
        assert told(folder, text, at((1, "a", "x")), [knows(2, "a", "b")], operator="istream", drain=True) == expected


def test_static_data_is_valid_always(tmp_path: Path) -> None:
    static = [(f"<{EX}x>", f"<{EX}in>", f"<{EX}r>")]
    text = "SELECT ?p ?r FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } ?l :in ?r }"
    elements = at((1, "a", "x"), (100_000, "b", "x"))
    assert told(tmp_path, text, elements, static=static, operator="istream") == ["1 + a r", "100000 + b r"]


# ------------------------------------------------------------------ §3
def test_content_change_counts_every_element_whether_or_not_a_pattern_matches_it(tmp_path: Path) -> None:
    elements = [*at((1, "a", "x")), knows(2, "a", "b")]
    assert told(tmp_path, IN_WINDOW, elements, drain=True) == ["1 = a", "2 = a"]


def test_the_instants_begin_at_the_first_elements_time_on_any_stream(tmp_path: Path) -> None:
    """Before that time the answer is the empty bag, so ISTREAM's first answer has all rows."""
    text = (
        "SELECT (COUNT(*) AS ?n) FROM NAMED :S [RANGE 9s] AS ?w FROM NAMED :T [RANGE 9s] AS ?z "
        "{ { GRAPH ?w { ?p :at ?l } } UNION { GRAPH ?z { ?p :at ?l } } }"
    )
    streams = at((5, "a", "x")), at((2.5, "b", "x"), (3, "c", "x"))
    found = told(tmp_path, text, *streams, operator="istream", policies={"": "p:1000"})
    assert found == ["3 + 2", "5 + 3"]


def test_a_row_that_ends_and_an_equal_row_that_begins_at_the_same_instant_cancel_out(tmp_path: Path) -> None:
    elements = at((1, "a", "x"), (3, "a", "x"), (3, "b", "x"))
    assert told(tmp_path / "i", IN_WINDOW, elements, operator="istream") == ["1 + a", "3 + b"]
    assert told(tmp_path / "d", IN_WINDOW, elements, operator="dstream", drain=True) == ["5 - a", "5 - b"]


def test_nc_of_a_window_and_of_any(tmp_path: Path) -> None:
    """With a name, that window must have content; without, some window of the query."""
    text = (
        "SELECT (COUNT(*) AS ?n) FROM NAMED :S [RANGE 1s] AS ?w FROM NAMED :T [RANGE 1s] AS ?z "
        "{ { GRAPH ?w { ?p :at ?l } } UNION { GRAPH ?z { ?p :at ?l } } }"
    )
    streams = at((1, "a", "x"), (6, "d", "x")), at((3, "b", "x"), (5, "c", "x"))
    assert told(tmp_path / "any", text, *streams, policies={"": "p:1000,nc"}) == ["1 = 1", "3 = 1", "5 = 1", "6 = 1"]
    mine = {"w": "p:1000,nc", "z": "p:1000000"}
    assert told(tmp_path / "one", text, *streams, policies=mine) == ["1 = 1", "6 = 1"]


def test_over_several_windows_each_ones_instants_count(tmp_path: Path) -> None:
    text = """SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW :u ON :S [RANGE PT2S STEP PT2S]
    FROM NAMED WINDOW :v ON :S [RANGE PT3S STEP PT3S] { WINDOW :u { ?p :at ?l } }"""
    found = told(tmp_path, text, at((1, "a", "x"), (6, "b", "x")), policies={"": "wc"}, duplicates="set")
    assert [row.split()[0] for row in found] == ["2", "3", "4", "6"]


# ------------------------------------------------------------------ §4
def test_each_partition_judges_its_own_elements(tmp_path: Path) -> None:
    """An element that follows a later element of its file is late by more than 1 ms; the other file's elements are not."""
    text = "SELECT ?p FROM NAMED :S [NOW] AS ?w { GRAPH ?w { ?p :at ?l } }"
    one, other = at((1, "a", "x"), (5, "b", "x"), (4, "late", "x"), (4.999, "d", "x")), at((2, "e", "x"), (4, "f", "x"))
    found = asked(tmp_path, text, World({STREAM: [one, other]}), operator="istream")
    assert found == ["1 + a", "2 + e", "4 + f", "5 + b"]
    with_lateness = asked(tmp_path / "l", text, World({STREAM: [one, other]}), operator="istream", lateness=1000)
    assert with_lateness == ["1 + a", "2 + e", "4 + f", "4 + late", "4.999 + d", "5 + b"]


# ------------------------------------------------------------------ the list in docs/conformance.md
def test_the_list_names_tests_that_there_are() -> None:
    named = re.findall(r"`((?:\w+/)+test_\w+\.py)(?:::(\w+))?`", DOCS.read_text(encoding="utf-8"))
    assert len(named) > 30
    for path, name in named:
        text = (DOCS.parents[1] / "tests" / path).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, (path, name)
