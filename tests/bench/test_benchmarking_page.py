"""The examples of docs/benchmarking.md work unchanged: a scenario, data, a contender and an external engine."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cqels_opt.bench.comparing import compare
from cqels_opt.bench.contenders import built_in
from cqels_opt.bench.declared import read, shipped
from cqels_opt.bench.generators import GENERATORS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "benchmarking.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", PAGE, re.DOTALL))


def _written(folder: Path) -> Path:
    for name, text in EXAMPLES.items():
        (folder / name).write_text(text.replace('"python3"', f'"{sys.executable}"'), encoding="utf-8")
    return folder / "my_scenario.toml"


def test_the_examples_agree(tmp_path: Path) -> None:
    scenario = _written(tmp_path)
    report = compare(read(scenario), [tmp_path / "my_contender.py", tmp_path / "engine.toml"])
    assert report["failed"] == []
    found = {(r["contender"], r["parameters"]["places"]): r["answers"] for r in report["results"]}
    assert len(found) == 5 * 2
    assert set(found.values()) == {300}


def test_data_of_ones_own(tmp_path: Path) -> None:
    scenario = _written(tmp_path)
    text = (
        EXAMPLES["my_scenario.toml"]
        .replace('generator = "social"', 'generator = "my_data.py:make"')
        .replace("authors = 500", "people = 9")
    )
    scenario.write_text(text.partition("[vary]")[0], encoding="utf-8")
    report = compare(read(scenario))
    assert {r["answers"] for r in report["results"]} == {300}
    assert report["data"] == {"generator": "my_data.py:make", "at 50/s": "9 people"}
    assert all(result["answers"] and result["verified"] for result in report["results"])


def test_the_page_names_everything_that_is_there() -> None:
    for name in (*GENERATORS, *built_in()):
        assert f"`{name}`" in PAGE
    assert set(shipped()) >= {"figure-5", "phases", "report", "engines", "sensors", "hubs", "flights", "contacts", "citybench"}
