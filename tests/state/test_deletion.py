"""Deletion of files that no commit needs: at once, or later in a thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cqels_opt.planner.background_jobs import at_once, in_thread
from cqels_opt.state.deletion import FEW, Deletion
from cqels_opt.storage import disk


def test_files_are_deleted_when_it_has_ended(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    deletion = Deletion(tmp_path, in_thread)
    deletion.begin({"a", "missing"})
    deletion.begin({"b"})
    deletion.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_batch_waits_for_deletion_that_has_not_begun(tmp_path: Path) -> None:
    names = {f"a{number}" for number in range(FEW + 1)}
    for name in names:
        (tmp_path / name).touch()
    later: list[Callable[[], None]] = []
    deletion = Deletion(tmp_path, later.append)
    deletion.begin(names)
    assert len([*tmp_path.iterdir()]) == FEW + 1
    in_thread(later[0])
    deletion.wait()
    assert not [*tmp_path.iterdir()]


def test_files_are_deleted_if_no_thread_can_be_started(tmp_path: Path) -> None:
    def no_thread(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    names = {f"a{number}" for number in range(FEW + 1)}
    for name in names:
        (tmp_path / name).touch()
    deletion = Deletion(tmp_path, no_thread)
    deletion.begin(names)
    assert deletion._ended.is_set()  # else wait() would not return
    deletion.wait()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("start", [at_once, in_thread])
def test_an_error_is_raised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[..., None]) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    deletion = Deletion(tmp_path, start)
    with monkeypatch.context() as patched:
        patched.setattr(disk, "delete", denied)
        with pytest.raises(PermissionError, match="Permission denied"):
            deletion.begin({f"a{number}" for number in range(FEW + 1)})
            deletion.wait()
    deletion.wait()
