"""RAND(), UUID(), STRUUID() and BNODE() draw a value for each row, also where the query reads few variables of the rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.query.parser import parse
from cqels_opt.verify import Element

PEOPLE, NAMES = 40, 5
MET = "GRAPH ?w { ?s <urn:met> ?o }"
NAMED = f"{MET} ?o <urn:name> ?n"
EITHER = f"{MET} {{ ?o <urn:name> ?n }} UNION {{ ?o <urn:alias> ?m }}"
HALF = "FILTER(RAND() < 0.5)"


@pytest.fixture(scope="module")
def world() -> World:
    """Each of 40 people meets one of eight others, who have five names and five aliases."""
    met = [Element(1_000, ((f"<urn:s{i}>", "<urn:met>", f"<urn:o{i % 8}>"),)) for i in range(PEOPLE)]
    names = [
        (f"<urn:o{i}>", f"<urn:{kind}>", f'"{kind}{j}"') for i in range(8) for j in range(NAMES) for kind in ("name", "alias")
    ]
    return World({"urn:S": [met]}, names)


def count(world: World, folder: Path, aggregate: str, pattern: str) -> int:
    text = f"SELECT ({aggregate} AS ?k) FROM NAMED <urn:S> [RANGE 9s] AS ?w {{ {pattern} }}"
    runs = register(parse(text), world, folder, Settings())
    ((_, _, row),) = runs.run(Cut("100")).answers
    ((_, value),) = row
    return int(value.split('"')[1])


@pytest.mark.parametrize(
    ("aggregate", "pattern", "rows"),
    [
        ("COUNT(DISTINCT STRUUID())", MET, PEOPLE),
        ("COUNT(DISTINCT UUID())", NAMED, PEOPLE * NAMES),
        ("COUNT(DISTINCT BNODE())", NAMED, PEOPLE * NAMES),
        ("COUNT(DISTINCT ?b)", f"{EITHER} BIND(BNODE() AS ?b)", PEOPLE * NAMES * 2),
        ("COUNT(DISTINCT ?b)", f"{MET} {{ SELECT ?o (BNODE() AS ?b) {{ {EITHER} }} }}", PEOPLE * NAMES * 2),
        ("COUNT(DISTINCT ?x)", f"{{ SELECT (STRUUID() AS ?x) {{ {NAMED} }} }}", PEOPLE * NAMES),
    ],
)
def test_each_row_has_a_value_of_its_own(world: World, tmp_path: Path, aggregate: str, pattern: str, rows: int) -> None:
    assert count(world, tmp_path, aggregate, pattern) == rows


@pytest.mark.parametrize(
    ("aggregate", "pattern", "rows"),
    [
        ("COUNT(*)", f"{MET} {HALF}", PEOPLE),
        ("COUNT(DISTINCT ?s)", f"{MET} {HALF}", PEOPLE),
        ("COUNT(*)", f"{NAMED} {HALF}", PEOPLE * NAMES),
        ("COUNT(*)", f"{EITHER} {HALF}", PEOPLE * NAMES * 2),
        ("SUM(IF(RAND() < 0.5, 1, 0))", MET, PEOPLE),
        ("COUNT(?n)", f"{MET} OPTIONAL {{ ?o <urn:name> ?n {HALF} }}", PEOPLE * NAMES),
        ("COUNT(?n)", f"{MET} OPTIONAL {{ ?o <urn:name> ?n FILTER(RAND() < 0.5 && ?s != ?n) }}", PEOPLE * NAMES),
    ],
)
def test_half_of_the_rows_is_drawn(world: World, tmp_path: Path, aggregate: str, pattern: str, rows: int) -> None:
    assert 0.25 * rows < count(world, tmp_path, aggregate, pattern) < 0.75 * rows


def test_all_names_of_a_person_are_not_drawn_together(world: World, tmp_path: Path) -> None:
    drawn = count(
        world, tmp_path, "COUNT(*)", f"{{ SELECT ?s (COUNT(*) AS ?c) {{ {NAMED} {HALF} }} GROUP BY ?s }} FILTER(?c < {NAMES})"
    )
    assert drawn > PEOPLE / 2


def drawn(world: World, folder: Path, text: str) -> list[str]:
    """The values of all variables but ?s."""
    answers = register(parse(text), world, folder, Settings()).run(Cut("100")).answers
    return [value for _, _, row in answers for name, value in row if name != "s"]


@pytest.mark.parametrize("function", ["RAND()", "UUID()", "STRUUID()", "BNODE()"])
def test_queries_and_calls_draw_values_of_their_own(world: World, tmp_path: Path, function: str) -> None:
    text = f"SELECT ?s ({function} AS ?x) ({function} AS ?y) FROM NAMED <urn:S> [RANGE 9s] AS ?w {{ {MET} }}"
    branch = f"{{ {MET} BIND({function} AS ?x) }}"
    union = f"SELECT ?s ?x FROM NAMED <urn:S> [RANGE 9s] AS ?w {{ {branch} UNION {branch} }}"
    first = drawn(world, tmp_path / "first", text)
    assert first == drawn(world, tmp_path / "again", text)
    values = [*first, *drawn(world, tmp_path / "other", f"{text} # other"), *drawn(world, tmp_path / "union", union)]
    assert len(set(values)) == len(values) == PEOPLE * (2 + 2 + 2)
