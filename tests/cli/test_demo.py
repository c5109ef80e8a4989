"""The demo on one night of real departures: both queries run, and all announced output is shown and exists."""

from __future__ import annotations

import io
import json
import shlex
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cqels_opt.bench.flights import lift
from cqels_opt.cli import demo
from cqels_opt.cli.grammar import parse
from cqels_opt.cli.options import Batch
from cqels_opt.trace.records import read_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTERWARDS = date(2013, 2, 9)  # the airports are closed until noon, then 282 departures in bad weather follow


@pytest.mark.long
def test_the_demo_on_the_day_after_the_blizzard(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = lift(tmp_path / "data", days=1, start=AFTERWARDS)
    shown = Console(file=io.StringIO(), width=120, highlight=False)
    summaries = demo.play(spark, files, Batch(duration=4 * demo.HOUR), Path("out"), tmp_path / "state", shown)
    assert isinstance(shown.file, io.StringIO)
    text = shown.file.getvalue()
    assert "\x1b" not in text
    assert [summary.elements for summary in summaries] == [files.departures, files.departures + files.observations]
    for scene, summary in zip(demo.SCENES, summaries, strict=True):
        folder = Path("out") / scene.name
        answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
        assert len(answers) == summary.answers > 0
        records = list(read_trace(folder / "trace.jsonl"))
        assert sum(record.elements for record in records) == summary.elements
        assert "<html" in (folder / "trace.html").read_text()
        assert f"{scene.name} ===" in text
        assert f"of {summary.answers:,} answers" in text
        assert str(folder / "trace.html") in text
        assert f"verify {folder.with_suffix('.rq')} " in text
        assert folder.with_suffix(".rq").read_text() == scene.query.read_text()
        for delta in records[-1].deltas:
            assert f"delta {delta.source}: " in text
        assert f"{sum(len(record.switches) for record in records)} plan switch" in text


def test_the_command_that_is_shown_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = lift(Path("data"), days=1)
    for scene in demo.SCENES:
        options = demo.run_options(scene, files, demo.batch_of(1), Path("out"))
        words = shlex.split(demo.command(options))
        typed = parse(words[1:])[1]
        assert typed.query.samefile(scene.query)
        assert (typed.streams, typed.static, typed.graphs, typed.batch) == (
            options.streams,
            options.static,
            options.graphs,
            options.batch,
        )


def test_a_year_has_no_more_batches_than_a_year_has_days() -> None:
    hours = {days: (demo.batch_of(days).duration or 0) / demo.HOUR for days in (1, 3, 15, 16, 364, 365, None)}
    assert hours == {1: 1, 3: 1, 15: 1, 16: 2, 364: 24, 365: 24, None: 24}
