"""What a command starts, and when: the JVM starts while queries are parsed, and ends where it is not needed.

``spark-submit`` is a script here, which records its process and its output and waits, or fails.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark import SparkContext

from cqels_opt.cli.main import main
from cqels_opt.errors import RunError
from cqels_opt.spark.class_archive import archive_file
from cqels_opt.spark.jvm import JvmSettings, jvm_started, start_jvm, take_jvm

GOOD = "PREFIX : <http://ex.org/> SELECT ?a FROM NAMED :s [RANGE 5s] AS ?w WHERE { GRAPH ?w { ?a :p ?b } ?b :q ?c }"
WAITS = """exec 3>&1
readlink /proc/$$/fd/3 > "$0.out"
echo "$@" > "$0.words"
echo "$SPARK_SUBMIT_OPTS" > "$0.options"
echo $$ > "$0.pid"
exec sleep 600"""


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that stands for ``spark-submit``."""
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    (tmp_path / "spark" / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", None)  # other tests of this process may have a session
    _write(script, WAITS)
    return script


def _write(script: Path, body: str) -> None:
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)


def _recorded(submit: Path, what: str) -> str:
    return submit.with_name(f"spark-submit.{what}").read_text().strip()


def _wait_for(submit: Path) -> int:
    latest = time.monotonic() + 60
    while not (file := submit.with_name("spark-submit.pid")).exists() or not file.read_text().strip():
        assert time.monotonic() < latest, "the script was not started"
        os.sched_yield()
    return int(_recorded(submit, "pid"))


def _alive(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def query(folder: Path, text: str) -> str:
    (folder / "query.rq").write_text(text, encoding="utf-8")
    return str(folder / "query.rq")


@pytest.mark.parametrize("command", ["run", "explain", "verify"])
def test_a_mistake_in_a_query_is_one_sentence_and_leaves_no_jvm(
    command: str, submit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([command, query(tmp_path, "SELECT ?x WHERE { ?x ?y }")]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"{tmp_path}/query.rq:1:") and "Traceback" not in err and "JVM" not in err
    file = submit.with_name("spark-submit.pid")  # absent if it was ended before its first line
    assert not file.exists() or not _alive(int(file.read_text()))


def test_a_jvm_that_no_session_takes_is_ended(submit: Path) -> None:
    with jvm_started(JvmSettings()):
        process = _wait_for(submit)
        assert _alive(process)
    assert not _alive(process)


def test_a_session_takes_the_jvm_that_waits_for_it_if_its_settings_are_the_same(submit: Path) -> None:
    with jvm_started(JvmSettings("local[3]", "a:b:1")):
        first = _wait_for(submit)
        submit.with_name("spark-submit.pid").unlink()
        other = take_jvm(JvmSettings("local[4]"))
        assert _wait_for(submit) == other.process.pid != first
        assert _recorded(submit, "words") == "--conf spark.master=local[4] pyspark-shell"
        other.kill()
        taken = take_jvm(JvmSettings("local[3]", "a:b:1"))
        assert taken.process.pid == first
    assert _alive(first)
    taken.kill()


def test_the_jvm_does_not_hold_the_output_of_the_command(submit: Path) -> None:
    """It may end seconds later, and a reader of the answers waits for the end of the pipe."""
    jvm = start_jvm(JvmSettings())
    _wait_for(submit)
    assert _recorded(submit, "out").endswith("/spark.log")
    jvm.kill()


@pytest.mark.parametrize("works", [False, True])
def test_options_of_the_user_follow_ours(works: bool, submit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=4 -Xshare:off")
    jvm = start_jvm(JvmSettings(works=works))
    _wait_for(submit)
    words = _recorded(submit, "options").split()
    assert words[:-1] == [*([] if works else ["-XX:TieredStopAtLevel=1"]), "-XX:TieredStopAtLevel=4", "-Xshare:off"]
    jvm.kill()


def test_a_jvm_that_does_not_start_is_one_sentence(submit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _write(submit, "echo noise; echo noise >&2; exit 1")
    (tmp_path / "s.ndjson").write_text('{"s": "<http://ex.org/a>", "p": "<http://ex.org/p>", "o": "<http://ex.org/b>", "t": 1}\n')
    words = ["run", query(tmp_path, GOOD), "--stream", "http://ex.org/s", str(tmp_path / "s.ndjson")]
    assert main(words) == 3
    assert capfd.readouterr() == ("", "the JVM of Spark ended before it was ready; --debug shows what it prints\n")


def test_small_data_are_explained_and_loaded_without_a_jvm(
    submit: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "static.nt"
    data.write_text("<http://ex.org/b> <http://ex.org/q> <http://ex.org/c> .\n")
    assert main(["explain", query(tmp_path, GOOD), "--static", str(data)]) == 0
    assert "delta w" in capfd.readouterr().out
    assert main(["load", str(data), "--store", str(tmp_path / "store")]) == 0
    assert main(["store", "check", str(tmp_path / "store")]) == 0
    assert not submit.with_name("spark-submit.pid").exists()


ENDS_WITH_ARCHIVE = """echo "$SPARK_SUBMIT_OPTS" >> "$0.options"
case "$SPARK_SUBMIT_OPTS" in *SharedArchiveFile*) exit 1;; esac
printf '\\000\\000\\001\\002\\000\\000\\000\\002ab' > "$_PYSPARK_DRIVER_CONN_INFO_PATH"
exec sleep 600"""


def test_a_jvm_that_ends_over_a_damaged_archive_is_replaced_by_one_without(
    submit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is deleted if the other one starts, and stays if both end: then it was not to blame."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = archive_file()
    assert archive is not None
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"\xa8\xab\x0b\xf0 and what no JVM can read")
    _write(submit, "exit 1")
    with pytest.raises(RunError, match="the JVM of Spark ended before it was ready"):
        start_jvm(JvmSettings()).connect()
    assert archive.exists()
    _write(submit, ENDS_WITH_ARCHIVE)
    jvm = start_jvm(JvmSettings())
    assert jvm.connect() == {"PYSPARK_GATEWAY_PORT": "258", "PYSPARK_GATEWAY_SECRET": "ab"}
    assert ["SharedArchiveFile" in line for line in _recorded(submit, "options").splitlines()] == [True, False]
    assert not archive.exists()
    jvm.kill()
