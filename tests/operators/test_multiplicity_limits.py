"""A star of static patterns whose matches multiply: counted as long as it can be, and then refused (CQELS report §4.2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.errors import RunError
from cqels_opt.verify import Element

EX = "http://ex.org/"
EACH = 256


def world(patterns: int) -> World:
    """Each predicate has 256 objects, so that n patterns of the star have 256 ** n rows together."""
    triples = [(f"<{EX}x>", f"<{EX}p{p}>", f"<{EX}o{o}>") for p in range(patterns) for o in range(EACH)]
    return World({f"{EX}S": [[Element(1000, ((f"<{EX}a>", f"<{EX}at>", f"<{EX}x>"),))]]}, triples)


def asked(folder: Path, patterns: int, select: str, stream: bool = True, modifiers: str = "") -> list[str]:
    star = " . ".join(f"?x :p{p} ?o{p}" for p in range(patterns))
    match = "GRAPH ?w { ?a :at ?x }" if stream else ""
    text = f"PREFIX : <{EX}> SELECT {select} FROM NAMED :S [NOW] AS ?w {{ {match} {star} }} {modifiers}"
    answers = register(text, world(patterns), folder, Settings("rstream", {"": "cc,nc"}, drain=True)).run(Cut("1")).answers
    return [value for _, _, row in answers.elements() for _, value in sorted(row)]


@pytest.mark.parametrize("stream", [True, False])
def test_what_fits_is_counted_and_the_rest_is_refused(stream: bool, tmp_path: Path) -> None:
    (found, *_) = asked(tmp_path / "7", 7, "(COUNT(*) AS ?n)", stream)
    assert found == f'"{EACH**7}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    with pytest.raises(
        RunError, match="more than 2\\^62 rows are equal in one result: the matches of patterns or windows multiply"
    ):
        asked(tmp_path / "8", 8, "(COUNT(*) AS ?n)", stream)


def test_a_limit_is_of_rows_that_need_not_be_written_out(tmp_path: Path) -> None:
    assert asked(tmp_path, 7, "?x", modifiers="LIMIT 3") == [f"<{EX}x>"] * 3
