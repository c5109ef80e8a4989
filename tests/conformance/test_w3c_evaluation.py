"""The W3C's query tests on the engine, static and as one element of a stream: the passing tests, and a reason for each failure.

``cqels-opt bench w3c`` prints the same by category.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cqels_opt.bench.w3c import by_reason, outcomes, show
from cqels_opt.bench.w3c.explained import MEANT_OTHERWISE, explanation
from cqels_opt.bench.w3c.manifest import ARCHIVE, W3CTest, read_tests, unpacked
from cqels_opt.bench.w3c.results import Result, difference
from cqels_opt.bench.w3c.running import Outcome

pytestmark = pytest.mark.needs_shared_data
LEAST = {
    ("1.0", "syntax"): 199,
    ("1.0", "evaluation"): 564,
    ("1.1", "syntax"): 103,
    ("1.1", "evaluation"): 470,
    ("1.2", "syntax"): 183,
    ("1.2", "evaluation"): 124,
}
"""The minimum number of passing evaluations, two per test."""


@pytest.fixture(scope="module")
def folder(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(shared_data / "w3c" / ARCHIVE, tmp_path_factory.mktemp("w3c"))


def judged(found: list[W3CTest]) -> list[Outcome]:
    """The outcomes; each failure has a reason."""
    done = outcomes(found)
    strange = {o.test.label: o.problem for o in done if o.problem and "not supported" not in o.problem and explanation(o) is None}
    assert not strange
    passed = Counter((o.test.version, "evaluation" if o.way else "syntax") for o in done if o.passes)
    for (version, kind), least in LEAST.items():
        if version == found[0].version:
            assert passed[version, kind] >= least
    return done


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_every_test_passes_or_says_why_not(folder: Path, version: str) -> None:
    done = judged(read_tests(folder, version))
    assert version != "1.1" or all(o.passes for o in done)
    not_there = {label for label in MEANT_OTHERWISE if label.startswith(version)} - {o.test.label for o in done if not o.passes}
    assert not not_there  # what passes is not explained away


def test_the_study_shows_categories_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"version": "1.1", "category": "bind", "static tests": 10, "static passed": 9}]
    failed = [
        {"test": f"1.{v} bind/b{n}.rq", "way": way, "problem": "lacks {x 1}", "explained": "it is later" if v == 2 else None}
        for v, n, way in ((1, 1, "static"), (1, 1, "stream"), *((2, n, "static") for n in range(10)))
    ]
    show({"results": rows, "failed": failed})
    out = capsys.readouterr().out
    assert "bind" in out and "9/10" in out and "lacks {x 1}" in out and "and 2 more" in out
    assert {reason: len(tests) for reason, tests in by_reason(failed).items()} == {"it is later": 10, "lacks {x 1}": 1}


# ------------------------------------------------------------------ the comparison itself
def table(*rows: dict[str, str]) -> Result:
    return Result(rows)


def test_blank_nodes_are_the_same_up_to_a_renaming() -> None:
    ours = table({"x": "_:a", "y": "_:b"}, {"x": "_:b", "y": "_:a"}, {"x": "_:c", "y": "_:c"})
    assert difference(ours, table({"x": "_:3", "y": "_:3"}, {"x": "_:1", "y": "_:2"}, {"x": "_:2", "y": "_:1"})) is None
    assert difference(ours, table({"x": "_:3", "y": "_:3"}, {"x": "_:1", "y": "_:2"}, {"x": "_:2", "y": "_:3"}))


def test_numbers_are_the_same_by_datatype_and_value() -> None:
    integer, decimal = ('"{}"^^<http://www.w3.org/2001/XMLSchema#' + kind + ">" for kind in ("integer", "decimal"))
    assert difference(table({"x": decimal.format("1.50")}), table({"x": decimal.format("1.5")})) is None
    assert difference(table({"x": integer.format("1")}), table({"x": decimal.format("1.0")}))


def test_a_result_is_a_bag_and_may_be_ordered() -> None:
    once, twice = table({"x": '"a"'}, {"x": '"b"'}), table({"x": '"b"'}, {"x": '"a"'}, {"x": '"a"'})
    assert difference(once, twice) and difference(once, twice, lax=True) is None and difference(twice, once, lax=True)
    turned = table({"x": '"b"'}, {"x": '"a"'})
    assert difference(once, turned) is None and difference(once, turned, ordered_by=("x",)) == "has another order"
