"""What a commit record names is durable before the record is there, and is deleted only after a later record is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut
from state.test_compaction import registered

from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.storage import disk, documents
from cqels_opt.trace.writer import TraceFile


class Watched:
    """The calls of :mod:`cqels_opt.storage.disk`: which names in which state a loss of power would take away."""

    def __init__(self, patch: pytest.MonkeyPatch, state: Path) -> None:
        self.state, self.volatile, self.syncs, self.records = state, set[Path](), 0, 0
        self.named: list[set[str]] = [set()]
        for name in ("create", "rename", "delete", "sync_file_system"):
            patch.setattr(disk, name, self._watching(name, getattr(disk, name)))

    def _watching(self, name: str, call: Any) -> Any:
        def watched(*given: Any) -> Any:
            getattr(self, name)(*given)
            return call(*given)

        return watched

    def create(self, path: Path) -> None:
        self.volatile.add(path)

    def sync_file_system(self, folder: Path) -> None:
        self.syncs += 1
        self.volatile.clear()

    def rename(self, source: Path, target: Path) -> None:
        if target.parent == self.state / "commits":
            record = documents.decode(target.name, source.read_bytes())["state"]
            named = {f["path"] for f in record["files"]} | {record["optimizer"]}
            assert len(named) > 3
            assert not {self.state / path for path in named} & self.volatile
            assert all((self.state / path).exists() for path in named)
            self.named.append(named)
            self.records += 1
        self.volatile.add(target)

    def delete(self, path: Path) -> None:
        if path.is_relative_to(self.state):
            assert str(path.relative_to(self.state)) not in self.named[-1]


def test_files_are_durable_before_their_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With merges at once. It takes one call a batch, however many files there are."""
    query, state = registered(tmp_path), tmp_path / "state"
    how = Cut("4")
    chunks = query.chunks(how)
    driver = query.driver(how, state, sink=LocalSink(), trace=TraceFile(tmp_path / "trace.jsonl"))
    watched = Watched(monkeypatch, state)
    for number, rows in enumerate(chunks):
        driver.batch(number, rows)
    assert watched.records == watched.syncs == len(chunks)


def test_what_a_task_elsewhere_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task on the driver's machine leaves it to the commit; any other syncs once what it wrote."""
    synced: list[Path] = []
    monkeypatch.setattr(disk, "_written", {})
    monkeypatch.setattr(disk, "sync_file_system", synced.append)
    for known in (disk.machine(), "another machine", None):
        for name in ("one", "two"):
            with disk.create(tmp_path / name) as file:
                file.write(b"")
        disk.sync_written(known)
        disk.sync_written(known)  # there is nothing new
    assert synced == [tmp_path, tmp_path]


def test_a_new_folder_has_a_durable_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync", synced.append)
    disk.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    disk.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2
