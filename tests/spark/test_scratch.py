"""Temporary files of a process: removed at its end, or, after a kill, at the next start; those of running processes remain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cqels_opt.spark import scratch, session
from cqels_opt.spark.scratch import LOCK, claim, remove_dead

ENDS = {
    "at its end": "",
    "by an exception": "raise KeyboardInterrupt",
    "killed": f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})",
}


def process(place: Path, then: str) -> int:
    """A process with a temporary folder below the given one, and a file in it; returns how it ended."""
    code = f"""
from cqels_opt.spark.scratch import process_folder, scratch_folder
with scratch_folder("run") as folder:
    (folder / "file").write_text("x")
    (process_folder() / "spark-1").mkdir()
    {then}
assert not folder.exists()
"""
    environment = {**os.environ, "TMPDIR": str(place)}
    return subprocess.run([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL, check=False).returncode


@pytest.mark.parametrize("end", ENDS)
def test_what_a_process_leaves(end: str, tmp_path: Path) -> None:
    (tmp_path / "spark-of-another-program").mkdir()
    code = process(tmp_path, ENDS[end])
    assert (code == 0) == (end == "at its end")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == (2 if end == "killed" else 1)
    assert process(tmp_path, "") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["spark-of-another-program"]


def test_a_living_process_keeps_its_folder(tmp_path: Path) -> None:
    folder, lock = claim(tmp_path, 1)
    (folder / "file").write_text("x")
    remove_dead(tmp_path)
    assert (folder / "file").exists()
    lock.close()
    remove_dead(tmp_path)
    assert not folder.exists()


def test_a_folder_that_is_taken_for_a_dead_one_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process checks the folder before it is locked, and again between the creation and the locking of its file."""
    made: list[str] = []
    mkdtemp, locked = scratch.tempfile.mkdtemp, scratch._locked

    def seen_too_early(**named: object) -> str:
        made.append(mkdtemp(**named))  # type: ignore[call-overload]
        if len(made) == 1:
            remove_dead(tmp_path)
        return made[-1]

    def locked_too_late(lock: object) -> bool | None:
        if len(made) == 2:
            monkeypatch.setattr(scratch, "_locked", locked)
            remove_dead(tmp_path)
        return locked(lock)  # type: ignore[arg-type]

    monkeypatch.setattr(scratch.tempfile, "mkdtemp", seen_too_early)
    monkeypatch.setattr(scratch, "_locked", locked_too_late)
    folder, lock = claim(tmp_path, 1)
    assert len(made) == 3 and str(folder) == made[-1]
    assert list(tmp_path.iterdir()) == [folder]
    lock.close()


def test_without_locks_nothing_is_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> bool:
        raise OSError("No locks available")

    monkeypatch.setattr(scratch, "taken_lock", refuse)
    folder, lock = claim(tmp_path, 1)
    lock.close()
    remove_dead(tmp_path)
    assert (folder / LOCK).exists()


@pytest.mark.parametrize(("length", "room"), [(20, True), (60, True), (61, False), (200, False)])
def test_paths_of_sockets_have_an_end(length: int, room: bool) -> None:
    assert session.room_for_sockets(Path("/" + "x" * (length - 1))) is room
