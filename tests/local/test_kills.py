"""Processes that are killed at any change of a file: the next start has the answers of an undisturbed run, each once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from killed_process import died
from spark.small_world import MAP, MET, STREAM, rows, write_rows, write_world

import cqels_opt as cq
from cqels_opt.runtime import growing_files

MOST = 400
"""Changes of files in a run, about."""


def run(place: Path, stream: Path, **options: object) -> None:
    """A run to the end of its input."""
    world = place.parent / "world"
    engine = cq.local.Engine(static=world / "static.nt", graphs={MAP: world / "places.nt"}, folder=place / "registered")
    query = engine.register(MET)
    query.start({STREAM: stream}, place / "out.jsonl", place / "c", place / "t.jsonl", **options).await_termination()  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(24))
def test_killed_and_started_again(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    files = write_world(tmp_path / "world", 60)
    live = bool(seed % 2)
    if live:
        files.stream.unlink()
        folder = tmp_path / "live"
        folder.mkdir()
        written = rows(60, seed=seed)
        for number in range(4):
            write_rows(folder / f"{number}.ndjson", written[15 * number : 15 * number + 15])
    stream, options = (tmp_path / "live", {"to_the_end": True}) if live else (files.stream, {"batch": 9})
    if seed % 8 == 0:
        options["commit_every"] = 0  # a record per batch: kills between two of them
    if seed % 4 == 2:  # a file that grows, whose commit records are written with the first and the last batch
        monkeypatch.setattr(growing_files, "MOST_BYTES", 1_000)
        options = {"follow": True, "to_the_end": True, "commit_every": "1h"}
    run(tmp_path / "calm", stream, **options)
    place, kills = tmp_path / "killed", 0
    while died(place, draw.randrange(1, MOST), lambda: run(place, stream, **options)):
        kills += 1
        assert kills < 50, "a run that makes no progress"
    run(place, stream, **options)  # after the end: nothing is added
    assert (place / "out.jsonl").read_text() == (tmp_path / "calm" / "out.jsonl").read_text()
    batches = [line.split('"batch": ')[1].split(",")[0] for line in (place / "t.jsonl").read_text().splitlines()]
    assert batches == sorted(set(batches), key=int)
