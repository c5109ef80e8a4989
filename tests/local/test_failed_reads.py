"""A file that cannot be read once: the next start in the same process, whose caches stay, has the answers of an undisturbed run."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from spark.small_world import MAP, MET, STREAM, write_world

import cqels_opt as cq
from cqels_opt.errors import FileError
from cqels_opt.state import window_state


def run(place: Path, world: Path) -> list[str]:
    engine = cq.local.Engine(static=world / "static.nt", graphs={MAP: world / "places.nt"}, folder=place / "registered")
    options: Any = {"batch": 9, "commit_every": 0}
    engine.register(MET).start({STREAM: world / "stream.ndjson"}, place / "out.jsonl", place / "c", **options).await_termination()
    return (place / "out.jsonl").read_text().splitlines()


def test_a_window_that_was_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_world(tmp_path / "world", 60)
    calm, reads, read = run(tmp_path / "calm", tmp_path / "world"), [0], window_state.read_span
    fatal = 0

    def failing(*given: Any) -> Any:
        reads[0] += 1
        if reads[0] == fatal:
            raise OSError(errno.EIO, "Input/output error")
        return read(*given)

    monkeypatch.setattr(window_state, "read_span", failing)
    run(tmp_path / "counted", tmp_path / "world")
    most = reads[0]
    assert most > 6
    for fatal in range(1, most + 1):
        place, reads[0] = tmp_path / f"at-{fatal}", 0
        with pytest.raises(FileError, match="Input/output error"):
            run(place, tmp_path / "world")
        assert run(place, tmp_path / "world") == calm, fatal
