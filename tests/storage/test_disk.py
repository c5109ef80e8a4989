"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from cqels_opt.storage import disk


def test_a_file_that_is_written_atomically_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for content in (b"first", b"second"):
        disk.write_atomically(path, content)
        assert disk.read(path) == content
    assert [found.name for found in tmp_path.iterdir()] == ["record.json"]


def test_a_write_that_fails_leaves_the_file_before_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.json"
    disk.write_atomically(path, b"first")

    def full(_: BinaryIO) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "flush", full)
    with pytest.raises(OSError, match="No space"):
        disk.write_atomically(path, b"second")
    assert disk.read(path) == b"first"
    assert [found.name for found in tmp_path.iterdir()] == ["record.json"]


def test_content_is_mapped_and_cut_and_synchronised(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with disk.append(path) as file:
        file.write(b"abcdef")
        disk.flush(file)
    disk.truncate(path, 3)
    disk.sync(tmp_path)
    disk.sync_file_system(tmp_path)
    assert bytes(disk.mapped(path)) == b"abc"
    disk.delete(path)
    disk.delete(path)
    assert not path.exists()
