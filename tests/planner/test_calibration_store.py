"""The measured constants in the user's cache folder: kept, found again, and not believed when they are damaged or another machine's."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cqels_opt.planner import calibration_store
from cqels_opt.planner.calibration_store import SPARK_NAMES, Calibration, cache_file, keep, known, seconds_text
from cqels_opt.plans import Constants

WHEN = "2013-02-07T12:00:00Z"


def test_without_a_file_the_defaults_are_used_and_it_is_said(tmp_path: Path) -> None:
    found = known(tmp_path / "constants.json")
    assert (found.constants, found.measured, found.why) == (Constants(), None, "none")
    assert "`cqels-opt calibrate` measures this machine's" in found.text()


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "constants.json"
    true = Constants(probe=2.5e-7, job=0.25)
    assert keep(asdict(true), WHEN, file) == file
    assert known(file) == Calibration(true, WHEN, tuple(asdict(true)))
    assert [path.name for path in file.parent.iterdir()] == ["constants.json"]
    text = known(file).text()
    assert text.splitlines()[0] == f"constants: measured on this machine, {WHEN}"
    assert "probe 250 ns" in text
    assert "job 250 ms" in text


def test_what_was_not_measured_has_its_default(tmp_path: Path) -> None:
    seconds = {name: value for name, value in asdict(Constants(scan=5e-9)).items() if name not in SPARK_NAMES}
    keep(seconds, WHEN, tmp_path / "c.json")
    found = known(tmp_path / "c.json")
    assert found.constants == Constants(scan=5e-9)
    assert found.origin.endswith("(defaults: job, stage, shuffle, broadcast)")


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": {"probe": -1.0}},
        {"seconds": {"probe": float("nan")}},
        {"seconds": {"probe": "fast"}},
        {"seconds": {"wings": 1.0}},
        {"seconds": None},
        {"fingerprint": None, "format": []},
    ],
)
def test_a_damaged_file_counts_for_nothing(change: dict[str, object], tmp_path: Path) -> None:
    file = keep({"probe": 1e-7}, WHEN, tmp_path / "c.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, **change}), encoding="utf-8")
    found = known(file)
    assert found.constants == Constants()
    assert found.measured is None
    assert found.why in ("damaged", "stale")
    assert "measures them again" in found.origin


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"format": 1}'])
def test_a_file_that_is_no_record_counts_for_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text, encoding="utf-8")
    assert known(tmp_path / "c.json") == Calibration(why="damaged")


def test_constants_of_another_machine_or_version_count_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = keep({"probe": 1e-6}, WHEN, tmp_path / "c.json")
    here = calibration_store.fingerprint()
    assert {"processor", "cores", "python", "numpy", "pyspark"} <= set(here)
    assert known(file).constants == replace(Constants(), probe=1e-6)
    for name in here:
        monkeypatch.setattr(calibration_store, "fingerprint", lambda name=name: {**here, name: "another"})
        assert known(file) == Calibration(why="stale")


def test_measuring_again_replaces_what_was_damaged(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text("{", encoding="utf-8")
    keep({"probe": 3e-7}, WHEN, file)
    assert known(file).constants.probe == 3e-7


def test_the_cache_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_file() == tmp_path / "cqels-opt" / "constants.json"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_file() == tmp_path / "home" / ".cache" / "cqels-opt" / "constants.json"


def test_seconds_for_people() -> None:
    assert [seconds_text(s) for s in (2.0, 0.0815, 2e-5, 1.5e-7, 0.0)] == ["2 s", "81.5 ms", "20 µs", "150 ns", "0 ns"]
