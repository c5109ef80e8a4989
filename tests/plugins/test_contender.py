"""A contender of another package: the harness lists it, runs it next to ours, and compares its answers."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from added_parts import install

from cqels_opt.bench import harness
from cqels_opt.bench.comparing import compare
from cqels_opt.bench.contenders import find
from cqels_opt.bench.declared import read
from cqels_opt.cli.grammar import parse
from cqels_opt.cli.options import BenchOptions
from cqels_opt.errors import InputError

SCENARIO = """
title = "Who is where"
contenders = {contenders}
[data]
generator = "social"
authors = 40
places = 5
[queries]
where = "where.rq"
[stream]
rates = [20]
seconds = 3
batch = "1s"
warm_up = 1
"""
QUERY = """PREFIX loc: <http://deri.org/ns/loc#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
SELECT ?name ?locName FROM NAMED <http://deri.org/locstreams> [NOW] AS ?now
WHERE { GRAPH ?now { ?person loc:at ?loc } GRAPH <http://deri.org/localization/> { ?loc loc:name ?locName } ?person foaf:name ?name }
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as if its package were installed."""
    install(monkeypatch, EntryPoint("pandas", "contender:CONTENDER", "cqels_opt.contenders"))


def scenario(folder: Path, contenders: str) -> Path:
    (folder / "where.rq").write_text(QUERY, encoding="utf-8")
    file = folder / "where.toml"
    file.write_text(SCENARIO.format(contenders=contenders), encoding="utf-8")
    return file


def answers(report: dict[str, Any]) -> dict[str, int]:
    assert report["failed"] == []
    return {result["contender"]: result["answers"] for result in report["results"]}


def test_a_scenario_names_it(tmp_path: Path) -> None:
    report = compare(read(scenario(tmp_path, '["adaptive", "pandas"]')))
    assert answers(report) == {"adaptive": 60, "pandas": 60}
    assert report["contenders"]["pandas"] == "the query where as two merges of pandas"


def test_the_command_line_names_it(tmp_path: Path) -> None:
    _, options = parse(["bench", "where.toml", "--contender", "pandas"])
    assert options.contenders == ("pandas",)
    assert answers(compare(read(scenario(tmp_path, '["adaptive"]')), options.contenders)) == {"adaptive": 60, "pandas": 60}


def test_the_list_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    harness.bench(BenchOptions(list=True))
    assert "pandas: the query where as two merges of pandas" in capsys.readouterr().out


def test_an_unknown_name_lists_it() -> None:
    with pytest.raises(InputError, match=r"there is no contender 'panda'; did you mean pandas\?; there are adaptive, .*, pandas"):
        find(["panda"])


def test_an_entry_point_that_is_no_contender_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, EntryPoint("counter", "collections:Counter", "cqels_opt.contenders"))
    with pytest.raises(InputError, match=r"'counter' of cqels_opt.contenders must be a Contender with the name 'counter'"):
        find(["counter"])
