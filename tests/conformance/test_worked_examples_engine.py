"""The worked examples of SEMANTICS §5, on the engine, for any batches, plans and shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, Registered, Settings, World, register

from cqels_opt.errors import InputError
from cqels_opt.verify import Element

from .conftest import EX, STREAM, short

E1 = "SELECT ?p ?q ?l FROM NAMED :S [NOW] AS ?n FROM NAMED :S [RANGE 5s] AS ?w { GRAPH ?n { ?p :at ?l } GRAPH ?w { ?q :at ?l } }"
E2 = "SELECT ?l (COUNT(*) AS ?k) FROM NAMED :S [RANGE 5s] AS ?w { GRAPH ?w { ?p :at ?l } } GROUP BY ?l"
E5 = "SELECT ?p ?l FROM NAMED :S [TRIPLES 2] AS ?w { GRAPH ?w { ?p :at ?l } }"
E6 = """SELECT ?p ?l ?q FROM NAMED :S [RANGE 2s] AS ?v FROM NAMED :S [RANGE 5s] AS ?w
{ GRAPH ?v { ?p :at ?l } OPTIONAL { GRAPH ?w { ?q :at ?l } FILTER(?q != ?p) } }"""

CUTS = [
    Cut(batch, plan, split, parts)
    for batch in ("1", "2", "3", "7", "100", "500ms", "4000ms")
    for plan, split, parts in (("adaptive", 1, None), ("first", 1, 3), ("static", 3, None), ("worst", 3, 3), ("random", 1, 1))
]


def registered(folder: Path, text: str, world: list[Element], operator: str = "istream", drain: bool = False) -> Registered:
    query = f"PREFIX : <{EX}>\n{text}"
    return register(query, World({STREAM: [world]}), folder / f"{operator}{drain}", Settings(operator, drain=drain))


def told(query: Registered) -> list[str]:
    """The answers, equal for all batches and plans."""
    found = [short(query.run(how).answers) for how in CUTS]
    assert all(answers == found[0] for answers in found)
    return found[0]


@pytest.mark.long
def test_e1_two_windows(tmp_path: Path, world: list[Element]) -> None:
    """Rows are ?l ?p ?q."""
    assert told(registered(tmp_path, E1, world)) == ["1 + x a a", "3 + x b a", "3 + x b b", "6 + y a a", "9 + y c a", "9 + y c c"]


@pytest.mark.long
def test_e2_an_expiry_is_a_content_change(tmp_path: Path, world: list[Element]) -> None:
    """Rows are ?k ?l. At 6 `a at x` leaves; at 8 the group x is empty and has no row: ISTREAM is empty, DSTREAM has (x, 1)."""
    seen = ["1 + 1 x", "3 + 2 x", "6 + 1 x", "6 + 1 y", "9 + 2 y"]
    assert told(registered(tmp_path, E2, world)) == seen
    assert told(registered(tmp_path, E2, world, drain=True)) == [*seen, "11 + 1 y"]
    assert "8 - 1 x" in told(registered(tmp_path, E2, world, "dstream"))


@pytest.mark.long
def test_e2_as_snapshots(tmp_path: Path, world: list[Element]) -> None:
    expected = ["1 = 1 x", "3 = 2 x", "6 = 1 x", "6 = 1 y", "8 = 1 y", "9 = 2 y", "11 = 1 y"]
    assert told(registered(tmp_path, E2, world, "rstream", drain=True)) == expected


@pytest.mark.long
def test_e5_the_last_elements(tmp_path: Path, world: list[Element]) -> None:
    """Rows are ?l ?p."""
    assert told(registered(tmp_path, E5, world)) == ["1 + x a", "3 + x b", "6 + y a", "9 + y c"]
    assert told(registered(tmp_path, E5, world, "dstream")) == ["6 - x a", "9 - x b"]


def test_e5_never_empties(tmp_path: Path, world: list[Element]) -> None:
    with pytest.raises(InputError, match="drain"):
        registered(tmp_path, E5, world, drain=True).run()


@pytest.mark.long
def test_e6_optional(tmp_path: Path, world: list[Element]) -> None:
    """Rows are ?l ?p ?q. `a at x` never joins b, whose interval begins as a's ends, and (b, x) alone is never a row."""
    assert told(registered(tmp_path, E6, world)) == ["1 + x a", "3 + x b a", "6 + y a", "9 + y c a"]
