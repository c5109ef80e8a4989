"""What a checkpoint rejects: another query, other data, other options, and damage; with one line and without answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from cqels_opt.cli import commands
from cqels_opt.cli.main import main

from .small_world import CROWDS, MET, Files, write_query, write_rows, write_world
from .small_world import rows as some_rows


@pytest.fixture(autouse=True)
def shared_session(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in the session of the tests."""
    monkeypatch.setattr(commands, "open_session", lambda *_: nullcontext(spark))


@pytest.fixture(scope="module")
def finished(spark: object, tmp_path_factory: pytest.TempPathFactory) -> tuple[Files, Path]:
    """A world, and the checkpoint of a run of MET over it."""
    folder = tmp_path_factory.mktemp("finished")
    files = write_world(folder / "world", 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "open_session", lambda *_: nullcontext(spark))
        assert main(words(folder, files, write_query(folder, MET))) == 0
    return files, folder


def words(folder: Path, files: Files, query: Path) -> list[str]:
    own = ["--checkpoint", str(folder / "checkpoint"), "--out", str(folder / "out.jsonl"), "--batch", "20"]
    return ["run", str(query), *files.words, *own]


@pytest.fixture
def copied(finished: tuple[Files, Path], tmp_path: Path) -> tuple[Files, Path]:
    """The same world, with a checkpoint that a test may damage."""
    files, folder = finished
    shutil.copytree(folder / "checkpoint", tmp_path / "checkpoint")
    shutil.copyfile(folder / "out.jsonl", tmp_path / "out.jsonl")
    return files, tmp_path


def refused(command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    before = (folder / "out.jsonl").read_bytes()
    capsys.readouterr()
    assert main(command) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert (folder / "out.jsonl").read_bytes() == before
    return line


def test_another_query(copied: tuple[Files, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files, folder = copied
    line = refused(words(folder, files, write_query(folder, CROWDS)), folder, capsys)
    why = "its query differs, and has other windows; use another folder"
    assert line == f"{folder / 'checkpoint'}: the checkpoint belongs to another run: {why}"


def test_a_changed_query_over_the_same_windows(
    finished: tuple[Files, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run continues if the user accepts it; from then on the checkpoint belongs to the new query."""
    files, _ = finished
    assert main(words(tmp_path, files, write_query(tmp_path, MET))) == 0
    changed = write_query(tmp_path, MET.replace("?p :knows ?q", "?q :knows ?p FILTER(?p != ?q)"))
    line = refused(words(tmp_path, files, changed), tmp_path, capsys)
    assert "--continue-changed continues with the changed one" in line
    before = (tmp_path / "out.jsonl").read_bytes()
    assert main([*words(tmp_path, files, changed), "--continue-changed"]) == 0
    assert (tmp_path / "out.jsonl").read_bytes() == before  # the input had ended


def test_another_drain(copied: tuple[Files, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files, folder = copied
    line = refused([*words(folder, files, write_query(folder, MET)), "--drain"], folder, capsys)
    assert "the checkpoint belongs to another run: its drain differs" in line


def test_another_stream(copied: tuple[Files, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files, folder = copied
    other = Files(folder / "other.ndjson", files.static, files.places)
    write_rows(other.stream, some_rows(60, seed=5))
    assert "checkpoint" in refused(words(folder, other, write_query(folder, MET)), folder, capsys)


def test_other_static_data(copied: tuple[Files, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files, folder = copied
    other = Files(files.stream, folder / "other.nt", files.places)
    other.static.write_text("<http://ex.org/p1> <http://ex.org/knows> <http://ex.org/p2> .\n")
    line = refused(words(folder, other, write_query(folder, MET)), folder, capsys)
    assert "the checkpoint was made with other static data" in line


def newest(folder: Path) -> Path:
    return max(path for path in folder.iterdir() if not path.name.startswith("."))


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no identity": lambda folder: (folder / "cqels-opt.json").unlink(),
    "half an identity": lambda folder: (folder / "cqels-opt.json").write_text('{"version": 1, "ru'),
    "half a record": lambda folder: newest(folder / "commits").write_text('{"batch": 2, "fi'),
    "an empty record": lambda folder: newest(folder / "commits").write_text(""),
    "no newest record": lambda folder: newest(folder / "commits").unlink(),
    "no record": lambda folder: emptied(folder / "commits"),
    "no record and no identity": lambda folder: (emptied(folder / "commits"), (folder / "cqels-opt.json").unlink()),
    "half a replay plan": lambda folder: (folder / "replay" / "replay.json").write_text("{"),
    "half a static store": lambda folder: (folder / "registered" / "static" / "store" / "store.json").write_text("{"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage(how: str, copied: tuple[Files, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Reported in one line that names the folder."""
    files, folder = copied
    DAMAGE[how](folder / "checkpoint")
    command = words(folder, files, write_query(folder, MET))
    line = refused(command, folder, capsys)
    assert str(folder / "checkpoint") in line
    assert "damaged" in line


def test_a_replay_needs_no_log_of_the_job(copied: tuple[Files, Path]) -> None:
    """The commit records say which chunks have run; the local engine writes no such log."""
    files, folder = copied
    before = (folder / "out.jsonl").read_bytes()
    shutil.rmtree(folder / "checkpoint" / "spark")
    assert main(words(folder, files, write_query(folder, MET))) == 0
    assert (folder / "out.jsonl").read_bytes() == before


def test_what_the_planners_know_may_be_lost(finished: tuple[Files, Path], capsys: pytest.CaptureFixture[str]) -> None:
    files, folder = finished
    path, before = newest(folder / "checkpoint" / "optimizer"), (folder / "out.jsonl").read_bytes()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert main(words(folder, files, write_query(folder, MET))) == 0
    assert f"warning: statistics of the optimizer are lost and are counted again: {path}" in capsys.readouterr().err
    path.write_bytes(whole)
    assert (folder / "out.jsonl").read_bytes() == before


def test_static_data_that_are_gone_are_loaded_again(finished: tuple[Files, Path]) -> None:
    """Nothing is lost, for the original files are unchanged."""
    files, folder = finished
    before = (folder / "out.jsonl").read_bytes()
    shutil.rmtree(folder / "checkpoint" / "registered" / "static")
    assert main(words(folder, files, write_query(folder, MET))) == 0
    assert (folder / "out.jsonl").read_bytes() == before
