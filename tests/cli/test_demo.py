"""The demo on the days of a fog: three plan modes with the same answers, and all that it announces exists."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from cqels_opt.bench.flights import lift
from cqels_opt.bench.side_by_side import Step
from cqels_opt.cli import demo
from cqels_opt.cli.grammar import parse
from cqels_opt.cli.options import DemoOptions
from cqels_opt.runtime.interfaces import Runner
from cqels_opt.runtime.local_runner import LocalRunner
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.trace.records import Delta, Milliseconds, Moved, OperatorRecord, TraceRecord, read_trace
from cqels_opt.windows.batch_size import BatchSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOG = date(2013, 2, 11)


def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Callable[[], Runner], start: date, **given: bool) -> str:
    """What the demo prints for a day; checks it against the files that it leaves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "batch_of", lambda _: BatchSize(0, 4 * demo.HOUR))
    options, out = DemoOptions(1, Path("out"), **given), Path("out/fog")
    files = lift(options.out / "data", days=1, start=start)
    console = Console(file=io.StringIO(), width=120, highlight=False)
    steps = demo.play(files, options, tmp_path / "scratch", runner, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    traces = {mode: list(read_trace(out / f"{mode}.jsonl")) for mode in demo.MODES}
    for mode, records in traces.items():
        assert sum(record.elements for record in records) == files.departures + files.observations
        joined = [
            operator["observed"]
            for record in map(json.loads, (out / f"{mode}.jsonl").read_text().splitlines())
            for delta in record["deltas"]
            for plan in (delta, *delta.get("stopped", ()))
            for operator in plan["operators"]
            if (operator["op"], operator["relation"]) != ("scan", delta["source"])
        ]
        rows = sum(filter(None, joined))
        assert rows == sum(step.rows(mode) for step in steps)
        assert f"{rows:,}" in text
    assert len({sum(record.answers or 0 for record in records) for records in traces.values()}) == 1
    answers = len((out / "answers.jsonl").read_text().splitlines())
    assert f"until {demo.clock(steps[-1].time)} UTC: {answers:,} answers, the same for each plan" in text
    assert answers == sum(step.answers for step in steps) > 0
    switched = demo.best_switch(steps) is not None
    assert ("plan that saved most rows" in text, "No change of plan saved rows" in text) == (switched, not switched)
    assert "<html" in (out / "trace.html").read_text()
    assert "\x1b" not in text
    return text


@pytest.mark.long
def test_the_demo_in_a_fog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(tmp_path, monkeypatch, LocalRunner, FOG)
    assert "delta now:" not in text
    assert len(text.splitlines()) < 60


@pytest.mark.long
def test_the_demo_on_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(tmp_path, monkeypatch, lambda: SparkRunner(spark), FOG, verbose=True)
    assert "delta now: " in text
    assert '"tail1"' in text


def step(static: tuple[int, float], adaptive: tuple[int, float], switched: bool = False) -> Step:
    """A batch of two plan modes, each with the rows of its join and its milliseconds."""
    reason = (
        (Moved("selectivity((?miles < 1))", 0.004, 0.09), Moved("join_size(now, sky, ?airport)", None, 6.0)) if switched else ()
    )
    records = {}
    for mode, (rows, ms) in {"static": static, "adaptive": adaptive}.items():
        operators = (OperatorRecord("scan", "now", (), 5.0, 5), OperatorRecord("probe", "sky", ("airport",), 1.0, rows))
        changes = mode == "adaptive" and switched
        delta = Delta("now", "now » sky[?airport]", switched=changes, reason=reason if changes else (), operators=operators)
        records[mode] = TraceRecord(0, "fog", (0, 60_000), None, 5, deltas=(delta,), ms=Milliseconds(execute=ms))
    return Step(records, 1)


def text_of_switch(steps: list[Step]) -> str:
    console = Console(file=io.StringIO(), width=120, highlight=False)
    demo._show_switch(steps, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_change_that_gained_most_is_explained() -> None:
    steps = [
        step((10, 5.0), (10, 5.0), switched=True),
        step((100, 50.0), (10, 10.0), switched=True),
        step((4_000, 70.0), (1_000, 20.0)),
        step((50, 9.0), (40, 8.0), switched=True),
    ]
    found = demo.best_switch(steps)
    assert found == demo.Switch(1, 3, "now")
    assert found.gain(steps) == 3_090
    text = text_of_switch(steps)
    assert "share of rows that pass (?miles < 1): 0.4 % -> 9 %" in text
    assert "rows of now joined with sky on ?airport: unknown -> 6" in text
    assert "In the 2 batches until the next change, the plan chosen first took 120 ms, the adaptive one 30 ms" in text
    assert [line.count("█") for line in text.splitlines() if "» sky" in line] == [demo.BAR, demo.BAR // 4]


def test_a_busy_machine_does_not_change_which_switch_is_explained() -> None:
    steps = [step((900, 5.0), (10, 50.0), switched=True), step((50, 900.0), (40, 8.0), switched=True)]
    assert demo.best_switch(steps) == demo.Switch(0, 1, "now")


def test_it_says_so_if_no_change_gained() -> None:
    assert demo.best_switch([]) is None
    assert "No change of plan saved rows" in text_of_switch([step((10, 5.0), (10, 6.0), switched=True)])


@pytest.mark.long
def test_the_command_that_is_shown_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = DemoOptions(1, Path("out"))
    files = lift(options.out / "data", days=1)
    (options.out / "fog").mkdir()
    (options.out / "fog.rq").write_text(demo.FOG.read_text())
    words = shlex.split(demo.command(options, files))
    typed = parse(words[1:])[1]
    assert typed.query.samefile(options.out / "fog.rq")
    assert dict(typed.streams) == files.streams
    assert typed.static == (files.static,)
    assert typed.engine == "local"  # as the demo itself, which needs no Java
    assert "--engine" not in demo.command(replace(options, engine="spark"), files)
    assert typed.batch is not None
    assert typed.batch.duration == demo.batch_of(1).duration


def test_a_year_has_no_more_batches_than_a_year_has_days() -> None:
    hours = {days: demo.batch_of(days).duration / demo.HOUR for days in (1, 14, 15, 28, 365, None)}
    assert hours == {1: 8, 14: 8, 15: 24, 28: 24, 365: 24, None: 24}
