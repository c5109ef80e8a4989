"""Reports that are stored during a long run."""

import json
from pathlib import Path
from typing import Any

import pytest

from cqels_opt.bench import harness
from cqels_opt.bench import kept as module
from cqels_opt.bench.kept import StoredReports
from cqels_opt.cli.options import BenchOptions


@pytest.fixture(autouse=True)
def commit(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The commit in the metadata of a report."""
    found = {"commit": "abc1234"}
    monkeypatch.setattr(module, "versions", lambda packages: {"cqels-opt": "0.1.0", **found})
    return found


class Runs:
    """Reports by number, and the number of runs."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> dict[str, Any]:
        self.made += 1
        return {"number": self.made}


def test_without_a_folder_everything_is_run() -> None:
    runs = Runs()
    assert [StoredReports().once("figure-5", runs)["number"] for _ in range(2)] == [1, 2]


def test_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    runs, told = Runs(), list[str]()
    for _ in range(2):
        kept = StoredReports(tmp_path / "new", {"quick": True}, told.append)
        assert kept.once("figure-5", runs) == {"number": 1}
    assert kept.once("phases", runs) == {"number": 2}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["figure-5.json", "phases.json"]
    assert len(told) == 1
    assert "kept from" in told[0]


def test_changed_files_are_run_again_and_files_of_one_stem_are_kept_apart(tmp_path: Path) -> None:
    runs, names = Runs(), [str(tmp_path / folder / "mine.toml") for folder in ("a", "b")]
    query = tmp_path / "q.rq"

    def numbers() -> list[int]:
        return [int(StoredReports(tmp_path / "kept").once(name, runs, [query, tmp_path / "none"])["number"]) for name in names]

    query.write_text("SELECT 1", encoding="utf-8")
    assert [numbers(), numbers()] == [[1, 2], [1, 2]]
    query.write_text("SELECT 2", encoding="utf-8")
    assert numbers() == [3, 4]


def test_a_report_depends_on_the_files_of_its_scenario_and_on_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs()
    monkeypatch.setattr(harness, "_run", lambda name, options: runs())
    scenario, query, contender = (tmp_path / name for name in ("mine.toml", "q.rq", "own.py"))
    text = 'contenders = ["adaptive"]\ndata.generator = "make.py:make"\nqueries.q = "q.rq"\nsql.folder = "."\n'
    for file in (query, contender):
        file.write_text("", encoding="utf-8")
    scenario.write_text(text, encoding="utf-8")

    def run() -> int:
        harness.bench(BenchOptions((str(scenario),), contenders=(contender,), keep=tmp_path / "kept"))
        return runs.made

    assert [run(), run()] == [1, 1]
    for number, name in enumerate(("mine.toml", "q.rq", "own.py", "make.py", "q.sql"), 2):
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write("\n# changed")
        assert [run(), run()] == [number, number], name
    for number, variable in enumerate(("CQELS_OPT_DATA", "CQELS_OPT_RIVALS"), 7):
        monkeypatch.setenv(variable, str(tmp_path))
        assert [run(), run()] == [number, number]
    monkeypatch.setattr(harness, "machine", lambda: {"processor": "another", "load": 1.0})
    assert run() == 9
    monkeypatch.setattr(harness, "machine", lambda: {"processor": "another", "load": 2.0})
    assert run() == 9


def test_a_run_that_breaks_off_keeps_nothing_of_its_own(tmp_path: Path) -> None:
    def broken() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        StoredReports(tmp_path).once("drift", broken)
    assert list(tmp_path.iterdir()) == []


def test_other_options_other_code_and_broken_files_are_run_again(tmp_path: Path, commit: dict[str, str]) -> None:
    runs = Runs()

    def number(quick: bool = True) -> int:
        return int(StoredReports(tmp_path, {"quick": quick}).once("drift", runs)["number"])

    assert [number(), number(), number(quick=False), number()] == [1, 1, 2, 3]
    commit["commit"] = "def5678"
    assert [number(), number()] == [4, 4]
    commit["commit"] = "def5678-dirty"
    assert [number(), number()] == [5, 6]
    (tmp_path / "drift.json").write_text("{", encoding="utf-8")
    assert number() == 7
    assert json.loads((tmp_path / "drift.json").read_text(encoding="utf-8"))["report"] == {"number": 7}
