"""Invalid input: exit code 2, one line with file, line and column, and no answer of the batch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from cqels_opt.cli import commands
from cqels_opt.cli.main import main
from cqels_opt.trace.records import read_trace

from .command import call
from .small_world import EX, MAP, MET, STREAM, Files, rows, write_query, write_world


@pytest.fixture(autouse=True)
def shared_session(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in the session of the tests."""
    monkeypatch.setattr(commands, "open_session", lambda *_: nullcontext(spark))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_world(tmp_path, 40)


@pytest.fixture
def query(tmp_path: Path) -> Path:
    return write_query(tmp_path, MET)


def complaint(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    out = folder / "out.jsonl"
    assert main(["run", *words, "--batch", "10", "--out", str(out)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert not out.exists() or out.read_text() == ""
    return printed.err.splitlines()


# ------------------------------------------------------------------ the query
def test_unknown_stream(tmp_path: Path, files: Files, query: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(query), "--stream", f"{EX}other", str(files.stream), *files.words[3:]]
    (line,) = complaint(words, tmp_path, capsys)
    assert line == f"the query reads stream <{STREAM}>, but given is <{EX}other>: add --stream {STREAM} PATH"


def test_no_stream(tmp_path: Path, files: Files, query: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = complaint([str(query), *files.words[3:]], tmp_path, capsys)
    assert line == f"the query reads stream <{STREAM}>, but given is no stream: add --stream {STREAM} PATH"


def test_undeclared_window(tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """GRAPH of an undeclared variable ranges over named graphs (SEMANTICS §6), WINDOW of one is an error."""
    clause = "REGISTER RSTREAM <urn:o> AS\nSELECT ?p\nFROM NAMED WINDOW :w ON :S [RANGE PT5S STEP PT1S]"
    text = f"PREFIX : <{EX}>\n{clause}\nWHERE {{\n  WINDOW :v {{ ?p :at ?l }}\n}}\n"
    query = write_query(tmp_path, text)
    first, shown, caret = complaint([str(query), *files.words], tmp_path, capsys)
    assert first.startswith(f"{query}:6:")
    assert "window" in first
    assert shown == "  WINDOW :v { ?p :at ?l }"
    assert caret.strip() == "^"
    assert caret.index("^") == int(first.split(":")[2]) - 1


def test_a_query_that_cannot_be_read(tmp_path: Path, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    query = write_query(tmp_path, MET.replace("?p :knows ?q", "?p :knows"))
    first, shown, caret = complaint([str(query), *files.words], tmp_path, capsys)
    assert first.startswith(f"{query}:")
    assert len(shown) >= caret.index("^")


# ------------------------------------------------------------------ static data
@pytest.mark.parametrize("which", ["static", "places"])
def test_bad_line_of_static_data(
    which: str, tmp_path: Path, files: Files, query: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files.static if which == "static" else files.places
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], f"<{EX}a> <{EX}b> .", *lines[2:]]) + "\n")
    (line,) = complaint([str(query), *files.words], tmp_path, capsys)
    assert line.startswith(f"{path}:3:")


def test_missing_files(tmp_path: Path, files: Files, query: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = str(tmp_path / "gone.nt")
    (line,) = complaint([str(query), *files.words, "--static", gone], tmp_path, capsys)
    assert line == f"--static: {gone}: No such file or directory"
    (line,) = complaint([str(query), "--stream", STREAM, gone, "--graph", MAP, str(files.places)], tmp_path, capsys)
    assert gone in line


# ------------------------------------------------------------------ streams
BAD_ROWS = [
    ('{"s": "<http://ex.org/p1>", "p": "<http://ex.org/at>", "o": "x1", "t": 1009999}', "x1"),
    ('{"s": "\\"p1\\"", "p": "<http://ex.org/at>", "o": "<http://ex.org/x1>", "t": 1009999}', "p1"),
    ('{"s": "<http://ex.org/p1>", "p": "<http://ex.org/at>", "o": "<http://ex.org/x1>", "t": "noon"}', "noon"),
    ('{"s": "<http://ex.org/p1>", "p": "<http://ex.org/at>", "o": "<http://ex.org/x1>"}', "t"),
    ('{"s": "<http://ex.org/p1>", "p": "<http://ex.org/at>", "o"', ""),
    ("[]", ""),
]


def with_bad_row(path: Path, bad: str, place: int) -> None:
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[: place - 1], bad, *lines[place - 1 :]]) + "\n")


@pytest.mark.parametrize(("bad", "named"), BAD_ROWS)
def test_bad_row_of_a_stream(
    bad: str, named: str, tmp_path: Path, files: Files, query: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the third batch, which has no answers; the first two may have some."""
    with_bad_row(files.stream, bad, 25)
    out = tmp_path / "out.jsonl"
    assert main(["run", str(query), *files.words, "--batch", "10", "--out", str(out)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith(f"{files.stream}:25:")
    assert named in line
    third = rows(40)[20][3]
    assert not out.exists() or all(int(answer.split(": ")[1].split(",")[0]) < third for answer in out.read_text().splitlines())


def test_skipping_counts_and_keeps_reasons(tmp_path: Path, files: Files, query: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, clean, trace = tmp_path / "out.jsonl", tmp_path / "clean.jsonl", tmp_path / "trace.jsonl"
    assert main(["run", str(query), *files.words, "--batch", "10", "--out", str(clean)]) == 0
    for number, (bad, _) in enumerate(BAD_ROWS):
        with_bad_row(files.stream, bad, 5 + 6 * number)
    capsys.readouterr()
    words = ["--batch", "10", "--out", str(out), "--on-error", "skip", "--trace", str(trace)]
    assert main(["run", str(query), *files.words, *words]) == 0
    assert f"(0 late, {len(BAD_ROWS)} rejected)" in capsys.readouterr().err
    kept = (tmp_path / "trace.jsonl.rejected").read_text().splitlines()
    assert len(kept) == len(BAD_ROWS)
    assert {f'"line": {5 + 6 * number}' in "".join(kept) for number in range(len(BAD_ROWS))} == {True}
    assert all(f'"file": "{files.stream}"' in line and '"reason": "' in line for line in kept)
    assert sum(record.rejected for record in read_trace(trace)) == len(BAD_ROWS)
    assert sorted(out.read_text().splitlines()) == sorted(clean.read_text().splitlines())


# ------------------------------------------------------------------ a process of its own
@pytest.mark.long
def test_one_line_from_a_whole_process(tmp_path: Path, files: Files, query: Path) -> None:
    """Java and Spark add nothing to it."""
    with_bad_row(files.stream, BAD_ROWS[0][0], 25)
    out = tmp_path / "out.jsonl"
    done = call(["run", str(query), *files.words, "--batch", "1000", "--out", str(out), "--master", "local[1]"])
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{files.stream}:25:")
    assert done.err.count("\n") == 1, done.err
    assert not out.exists() or out.read_bytes() == b""


@pytest.mark.parametrize(("banner", "said"), [(None, "there is none on PATH"), ('openjdk version "11.0.2"', "is Java 11")])
def test_java_missing_or_too_old(banner: str | None, said: str, tmp_path: Path, files: Files, query: Path) -> None:
    environment = {"PATH": str(tmp_path), "JAVA_HOME": ""}
    if banner is not None:
        launcher = tmp_path / "old" / "bin" / "java"
        launcher.parent.mkdir(parents=True)
        launcher.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
        launcher.chmod(0o755)
        environment["JAVA_HOME"] = str(tmp_path / "old")
    done = call(["run", str(query), *files.words, "--out", str(tmp_path / "out.jsonl")], environment)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert said in line
    assert "install Java 17 or newer" in line
    assert not (tmp_path / "out.jsonl").exists()
