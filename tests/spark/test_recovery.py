"""Invariant 7 from outside: a run that was killed and restarted has the output of an undisturbed run.

The command line is a process; SIGKILL goes to its whole group, as does SIGINT (Ctrl-C). Undisturbed runs share the tests'
session.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cqels_opt.cli import commands
from cqels_opt.cli.main import main
from cqels_opt.query.parser import parse
from cqels_opt.spark.scratch import remove_dead
from cqels_opt.verify import Options, judge, read_answers

from .command import Command, lines
from .small_world import CROWDS, MET, Files, write_query, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ELEMENTS, BATCH = 160, 10


@dataclass(frozen=True)
class Run:
    """A command with its own checkpoint, answers and trace below ``folder``."""

    folder: Path
    query: Path
    files: Files

    @property
    def out(self) -> Path:
        return self.folder / "out.jsonl"

    @property
    def trace(self) -> Path:
        return self.folder / "trace.jsonl"

    @property
    def words(self) -> list[str]:
        checkpoint = str(self.folder / "checkpoint")
        own = ["--checkpoint", checkpoint, "--out", str(self.out), "--trace", str(self.trace), "--batch", str(BATCH)]
        return ["run", str(self.query), *self.files.words, *own, "--master", "local[2]"]

    def answers(self) -> list[str]:
        return sorted(self.out.read_text(encoding="utf-8").splitlines())

    def records(self) -> list[dict[str, Any]]:
        return [without_clock(json.loads(line)) for line in self.trace.read_text(encoding="utf-8").splitlines()]


def without_clock(record: dict[str, Any]) -> dict[str, Any]:
    """A trace record without what depends on the machine and the process: milliseconds, jobs, and the query's text after a start."""
    kept = {key: value for key, value in record.items() if key not in ("ms", "jobs", "text")}
    kept["deltas"] = [delta | {"operators": _untimed(delta["operators"])} for delta in record["deltas"]]
    return kept | {"operators": _untimed(record.get("operators", []))}


def _untimed(operators: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in operator.items() if key != "ms"} for operator in operators]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_world(tmp_path_factory.mktemp("world"), ELEMENTS)


def prepared(folder: Path, text: str, files: Files) -> Run:
    folder.mkdir(parents=True)
    return Run(folder, write_query(folder, text), files)


@pytest.fixture(scope="module")
def to_the_end(spark: SparkSession) -> Iterator[Callable[[Run], None]]:
    """Runs a command until its input has ended."""

    def run_it(run: Run) -> None:
        with redirect_stdout(StringIO()) as out:
            assert main(run.words) == 0
        assert out.getvalue() == ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "open_session", lambda *_: nullcontext(spark))
        yield run_it


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, files: Files, to_the_end: Callable[[Run], None]) -> dict[str, Run]:
    """The two queries, run from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    runs = {name: prepared(folder / name, text, files) for name, text in (("met", MET), ("crowds", CROWDS))}
    for name, run in runs.items():
        to_the_end(run)
        verdict = judge(parse(run.query.read_text()), files.inputs(), Options(), read_answers(run.out))
        assert verdict.equal, f"{name}: {verdict.text()}"
        assert lines(run.trace) == ELEMENTS // BATCH
    return runs


@pytest.mark.long
def test_kill_in_mid_run(tmp_path: Path, files: Files, undisturbed: dict[str, Run], to_the_end: Callable[[Run], None]) -> None:
    """Killed after a few batches; the next start runs to the end. Several kills of one run: tests/faults/test_killed_processes.py."""
    whole, run = undisturbed["crowds"], prepared(tmp_path / "crowds", CROWDS, files)
    command = Command(run.words)
    command.until(lambda: lines(run.trace) >= 0.3 * ELEMENTS / BATCH)
    command.kill()
    assert lines(run.trace) < ELEMENTS / BATCH
    to_the_end(run)
    assert run.answers() == whole.answers()
    assert run.records() == whole.records()


@pytest.mark.long
def test_logs_of_spark_that_lack_committed_batches(
    tmp_path: Path, files: Files, undisturbed: dict[str, Run], to_the_end: Callable[[Run], None]
) -> None:
    """As after batches of the local engine: the commit records say which chunks are left, here none, and Spark's query is not started."""
    whole, run = undisturbed["met"], prepared(tmp_path / "met", MET, files)
    to_the_end(run)
    spark = run.folder / "checkpoint" / "spark"
    last = ELEMENTS // BATCH - 2
    for log, length in (("offsets", last), ("commits", last), ("sources/0", last + 1)):
        for path in (spark / log).iterdir():
            number = path.name.strip(".").partition(".")[0]
            if number.isdecimal() and int(number) >= length:
                path.unlink()
    to_the_end(run)
    assert not (spark / "offsets" / str(last)).exists()
    assert run.answers() == whole.answers()
    assert run.records() == whole.records()
    to_the_end(run)
    assert run.answers() == whole.answers()


def test_a_second_run_over_a_finished_checkpoint(undisturbed: dict[str, Run], to_the_end: Callable[[Run], None]) -> None:
    run = undisturbed["met"]
    before = run.out.read_bytes(), run.trace.read_bytes()
    to_the_end(run)
    assert (run.out.read_bytes(), run.trace.read_bytes()) == before


STOPS: dict[str, Callable[[Command], None]] = {
    "ctrl-c": Command.interrupt,
    "sigterm": Command.terminate,
    "sigterm to the first process": partial(Command.terminate, everything=False),
}


@pytest.mark.long
@pytest.mark.parametrize("stop", STOPS)
def test_stopped(stop: str, tmp_path: Path, files: Files, undisturbed: dict[str, Run], to_the_end: Callable[[Run], None]) -> None:
    """The run stops between two batches, reports its progress and leaves no temporary files; the next start does the rest."""
    run, temporary = prepared(tmp_path / "met", MET, files), tmp_path / "t"
    temporary.mkdir()
    command = Command(run.words, {"TMPDIR": str(temporary)})
    command.until(lambda: lines(run.trace) >= 1)
    assert [folder.name.split("-")[:3] for folder in temporary.iterdir()] == [["cqels", "opt", str(command.process.pid)]]
    STOPS[stop](command)
    stopped = command.finish()
    assert (stopped.code, stopped.out) == (0, ""), stopped.err
    summary, where = stopped.err.splitlines()
    batches = lines(run.trace)
    assert 1 <= batches < ELEMENTS / BATCH
    assert summary.startswith(
        f"stopped after {batches} batch{'es' if batches > 1 else ''}, {batches * BATCH} elements (0 late, 0 rejected), "
    )
    assert f", {lines(run.out):,} answer" in summary
    assert where == f"trace: {run.trace}"
    assert list(temporary.iterdir()) == []
    to_the_end(run)
    assert run.answers() == undisturbed["met"].answers()
    assert run.records() == undisturbed["met"].records()


@pytest.mark.long
def test_temporary_files_of_a_jvm_that_is_killed(tmp_path: Path, files: Files) -> None:
    """The process that started it removes them; if that is killed too, the next one does."""
    run, temporary = prepared(tmp_path / "met", MET, files), tmp_path / "t"
    temporary.mkdir()
    command = Command(run.words, {"TMPDIR": str(temporary)})
    command.until(lambda: lines(run.trace) >= 1)
    (folder,) = temporary.iterdir()
    assert {path.name.partition("-")[0] for path in folder.iterdir()} >= {"spark", "blockmgr"}
    os.kill(command.java(), signal.SIGKILL)
    assert command.finish().code == 3
    assert list(temporary.iterdir()) == []
    command = Command(run.words, {"TMPDIR": str(temporary)})
    command.until(lambda: lines(run.trace) >= 3)
    command.kill()
    assert any(temporary.iterdir())
    remove_dead(temporary)
    assert list(temporary.iterdir()) == []
