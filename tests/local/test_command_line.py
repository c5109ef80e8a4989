"""``--engine local`` on the command line, where there is no Java."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from spark.small_world import MAP, MET, STREAM, Files, write_query, write_world

from cqels_opt.cli.main import main
from cqels_opt.lod.snapshots import version_at
from cqels_opt.query.parser import parse
from cqels_opt.state.commit_log import Commit, CommitLog
from cqels_opt.trace.records import read_trace
from cqels_opt.verify import Options, evaluate, read_answers


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_world(tmp_path, 60)


@pytest.mark.long
def test_a_run_without_java(files: Files, tmp_path: Path) -> None:
    """And without anything else on the PATH."""
    words = [sys.executable, "-m", "cqels_opt.cli.main", "run", str(write_query(tmp_path, MET)), *files.words]
    words += ["--engine", "local", "--batch", "20", "--out", str(tmp_path / "out.jsonl"), "--checkpoint", str(tmp_path / "c")]
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    for _ in range(2):  # the second has nothing left to do
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert done.stderr.startswith("3 batches, 60 elements")
    assert read_answers(tmp_path / "out.jsonl") == Counter(evaluate(parse(MET), files.inputs(), Options()))


def test_verify_and_explain(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(write_query(tmp_path, MET)), *files.words, "--engine", "local"]
    assert main(["verify", *words]) == 0
    assert "all are the same" in capsys.readouterr().out
    assert main(["explain", *words]) == 0
    assert "now" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["verify"], ["explain", "--analyze"]])
def test_verify_and_explain_leave_a_checkpoint_and_its_outputs_alone(
    command: list[str], files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out, trace = tmp_path / "c", tmp_path / "out.jsonl", tmp_path / "trace.jsonl"
    words = [str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--batch", "20", "--checkpoint", str(folder)]
    words += ["--out", str(out), "--trace", str(trace)]
    assert main(["run", *words]) == 0
    before = {path: path.read_bytes() for path in (out, trace, *folder.rglob("*")) if path.is_file()}
    for _ in range(2):
        assert main([*command, *words]) == 0, capsys.readouterr().err
    assert {path: path.read_bytes() for path in (out, trace, *folder.rglob("*")) if path.is_file()} == before


def test_nothing_is_explained_of_an_empty_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.ndjson").touch()
    words = [str(write_query(tmp_path, MET)), "--stream", "http://ex.org/S", str(tmp_path / "s.ndjson"), "--engine", "local"]
    assert main(["explain", "--analyze", *words]) == 2
    assert "no micro-batch has run, because the streams have no elements" in capsys.readouterr().err


def test_the_summary_has_the_answers_that_a_limit_printed(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--limit", "1"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1
    assert "answers (1 printed), " in printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--master", "local[1]"], "--master needs Spark; leave out --engine local, or --master"),
        (["--conf", "spark.executor.memory=4g"], "--conf needs Spark; leave out --engine local, or --conf"),
        (["--plan", "spark"], "--plan spark needs Spark"),
        (["--plan", "fixed:zz"], "--plan fixed: plan, column 3: ':' expected"),
        (["--plan", "fixed:now: now"], "--plan fixed: "),
        (["--joins", "sort-merge"], "--joins sort-merge needs Spark"),
        (["--out", "kafka://host:9092/topic"], "--out: a topic of Kafka needs Spark; leave out --engine local"),
    ],
)
def test_options_that_do_not_fit(
    words: list[str], message: str, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("file", ["replay/replay.json", "registered/static/sources.json", "registered/static/store/store.json"])
def test_a_checkpoint_that_lacks_a_file(file: str, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost: the batches after the committed ones would be of other elements."""
    words = ["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--out", str(tmp_path / "out.jsonl")]
    assert main([*words, "--checkpoint", str(tmp_path / "c"), "--batch", "20"]) == 0
    answers = (tmp_path / "out.jsonl").read_bytes()
    damaged = tmp_path / "c" / file
    if damaged.name == "sources.json":
        damaged.write_bytes(damaged.read_bytes()[:40])
    else:
        damaged.unlink()
    capsys.readouterr()
    assert main(["checkpoint", "check", str(tmp_path / "c")]) == 2
    assert str(damaged) in capsys.readouterr().err
    assert main([*words, "--checkpoint", str(tmp_path / "c"), "--batch", "7"]) == 2
    message = capsys.readouterr().err
    assert damaged.name in message and len(message.splitlines()) == 1
    assert (tmp_path / "out.jsonl").read_bytes() == answers


def test_another_output_than_before_is_refused(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--checkpoint", str(tmp_path / "c")]
    assert main([*words, "--out", str(tmp_path / "one.jsonl")]) == 0
    assert main([*words, "--out", str(tmp_path / "two.jsonl")]) == 2
    assert "two.jsonl does not exist, and the checkpoint has committed output: name what" in capsys.readouterr().err
    assert not [*tmp_path.glob("*two*")]


def test_drain_is_refused_before_the_first_answer(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(write_query(tmp_path, MET.replace("RANGE 5s", "TRIPLES 2"))), *files.words, "--engine", "local"]
    assert main(["run", *words, "--drain", "--batch", "1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "never empties; leave --drain out" in printed.err


def test_bad_lines(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with files.stream.open("a", encoding="utf-8") as file:
        file.write("{}\n")
    words = ["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--out", str(tmp_path / "out.jsonl")]
    assert main(words) == 2
    assert f"{files.stream}:61: s is missing" in capsys.readouterr().err
    trace = tmp_path / "trace.jsonl"
    assert main([*words, "--on-error", "skip", "--batch", "20", "--trace", str(trace)]) == 0
    assert "1 rejected" in capsys.readouterr().err
    assert [record.rejected for record in read_trace(trace)] == [0, 0, 1]


def test_bad_lines_of_static_data(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are counted as rejected, the first is named, and their reasons are kept next to the trace, before those of the stream."""
    with files.stream.open("a", encoding="utf-8") as file:
        file.write("{}\n")
    static = tmp_path / "bad.nt"
    static.write_text("<urn:a> <urn:p> <urn:b> .\n<urn:a> urn:p\n<urn:a>\n", encoding="utf-8")
    words = ["run", str(write_query(tmp_path, MET)), *files.words, "--static", str(static), "--engine", "local", "--batch", "20"]
    words += ["--out", str(tmp_path / "out.jsonl"), "--checkpoint", str(tmp_path / "c"), "--trace", str(tmp_path / "t.jsonl")]
    assert main(words) == 2
    assert f"{static}:2: column 9: expected" in capsys.readouterr().err
    for left_out in (3, 1):  # the second run does not read the static data again
        assert main([*words, "--on-error", "skip"]) == 0
        printed = capsys.readouterr().err
        assert f" {left_out} rejected)" in printed and f"rejected elements and why: {tmp_path / 't.jsonl.rejected'}" in printed
        first = f"warning: 2 lines of the static data left out, the first: {static}:2: column 9: expected"
        assert (first in printed) is (left_out == 3)
        kept = [json.loads(line) for line in (tmp_path / "t.jsonl.rejected").read_text(encoding="utf-8").splitlines()]
        assert [(line["file"], line["line"]) for line in kept] == [(str(static), 2), (str(static), 3), (str(files.stream), 61)]


def test_files_are_added_to_a_store(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run has a copy of its own; it is refused when one of the two has changed, or is missing."""
    store, bad = tmp_path / "store", tmp_path / "bad.nt"
    bad.write_text("<urn:a> urn:p\n", encoding="utf-8")
    assert main(["load", str(files.static), "--store", str(store), "--engine", "local"]) == 0
    version = version_at(store)
    words = ["run", str(write_query(tmp_path, MET)), "--stream", STREAM, str(files.stream), "--engine", "local", "--batch", "20"]
    words += ["--out", str(tmp_path / "out.jsonl"), "--checkpoint", str(tmp_path / "c"), "--store", str(store)]
    both = [*words, "--graph", MAP, str(files.places), "--static", str(bad), "--on-error", "skip"]
    capsys.readouterr()
    for left_out in (1, 0):
        assert main(both) == 0
        assert f" {left_out} rejected" in capsys.readouterr().err
    assert read_answers(tmp_path / "out.jsonl") == Counter(evaluate(parse(MET), files.inputs(), Options()))
    assert main(words) == 2
    assert "its static data differs" in capsys.readouterr().err
    assert version_at(store) == version
    assert main(["load", "--update", str(store), "--remove", str(files.static)]) == 0
    capsys.readouterr()
    assert main(both) == 2
    assert "the checkpoint was made with other static data; use another folder" in capsys.readouterr().err


def test_a_file_that_grows_is_followed_until_it_is_stopped(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGINT arrives during the first batch; the batch is committed before the run ends."""
    committed = CommitLog.write

    def interrupted(log: CommitLog, commit: Commit) -> None:
        committed(log, commit)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CommitLog, "write", interrupted)
    words = [
        "run",
        str(write_query(tmp_path, MET)),
        *files.words,
        "--engine",
        "local",
        "--follow",
        "--out",
        str(tmp_path / "o.jsonl"),
    ]
    assert main(words) == 0
    assert capsys.readouterr().err.startswith("stopped after 1 batch, 60 elements")
    assert (tmp_path / "o.jsonl").read_text()


@pytest.mark.parametrize("kind", ["folders", "growing files"])
def test_a_stream_that_is_followed_has_one_place(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two folders would be one source partition, and elements of one late by those of the other."""
    places = [tmp_path / "a.ndjson", tmp_path / "b.ndjson"]
    for place in places:
        if kind == "folders":
            place.mkdir()
        else:
            place.touch()
    streams = [word for place in places for word in ("--stream", "http://ex.org/S", str(place))]
    assert main(["run", str(write_query(tmp_path, MET)), *streams, "--engine", "local", "--follow"]) == 2
    assert "stream <http://ex.org/S> is given more than once: a run that follows it reads one folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_graph_of_several_files(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (tmp_path / f"{name}.nt").write_text(f"<urn:{name}> <urn:p> <urn:o> .\n")
    graphs = [word for name in "ab" for word in ("--graph", "urn:g", str(tmp_path / f"{name}.nt"))]
    text = "SELECT ?s { GRAPH <urn:g> { ?s <urn:p> ?o } }"
    assert main([command, "-e", text, *graphs, "--engine", "local"]) == 0
    said = capsys.readouterr().out
    assert "all are the same" in said if command == "verify" else ("urn:a" in said and "urn:b" in said)


def test_a_checkpoint_is_refused_for_windows_with_other_bounds(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text of the query is the same; rows at the ends of windows would be in two of them, or in none."""
    text = (
        "SELECT ?p FROM NAMED WINDOW <urn:w> ON <http://ex.org/S> [RANGE PT1S STEP PT1S] WHERE { WINDOW <urn:w> { ?p ?at ?x } }"
    )
    words = ["run", str(write_query(tmp_path, text)), *files.words, "--engine", "local", "--checkpoint", str(tmp_path / "c")]
    words += ["--out", str(tmp_path / "out.jsonl"), "--bounds"]
    assert main([*words, "open-closed"]) == 0
    answers = (tmp_path / "out.jsonl").read_bytes()
    capsys.readouterr()
    assert main([*words, "closed-open"]) == 2
    assert "its query has other windows (other bounds, or another profile); use another folder" in capsys.readouterr().err
    assert (tmp_path / "out.jsonl").read_bytes() == answers


def test_a_second_interrupt_ends_the_run_within_a_batch(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(log: CommitLog, commit: Commit) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    words = ["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--batch", "20"]
    words += ["--out", str(tmp_path / "o.jsonl"), "--checkpoint", str(tmp_path / "c")]
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "write", interrupted)
        assert main(words) == 3
    said = (
        "the run was interrupted twice, and has ended within a micro-batch; the same command resumes it, if it has a --checkpoint"
    )
    assert capsys.readouterr().err.strip() == said
    assert main(words) == 0
    assert read_answers(tmp_path / "o.jsonl") == Counter(evaluate(parse(MET), files.inputs(), Options()))


@pytest.mark.parametrize("out", ["o.jsonl", "o"])
def test_a_checkpoint_whose_answers_are_gone(out: str, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, check = tmp_path / out, ["checkpoint", "check", str(tmp_path / "c"), "--out"]
    if out == "o":
        place.mkdir()
    words = ["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--checkpoint", str(tmp_path / "c")]
    assert main([*words, "--out", f"{place}{'/' * place.is_dir()}"]) == 0
    assert main([*check, str(place)]) == 0
    gone, kind = place.rename(tmp_path / "gone"), "folder" if out == "o" else "file"
    capsys.readouterr()
    assert main([*check, str(place)]) == 2
    assert f"{place}: " in capsys.readouterr().err
    (tmp_path / "other").touch() if kind == "folder" else (tmp_path / "other").mkdir()
    assert main([*check, str(tmp_path / "other")]) == 2
    assert f"other: the checkpoint has committed its answers to a {kind}, and this is none" in capsys.readouterr().err
    assert main([*check, str(gone)]) == 0
