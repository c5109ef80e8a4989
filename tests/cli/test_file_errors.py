"""Errors of the file system are one sentence, with the path and the remedy, and exit code 2, in all commands."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from cqels_opt.cli import main
from cqels_opt.errors import FileError, RunError
from cqels_opt.runtime.output_owner import Owner, claim_file
from cqels_opt.state.checkpoint_lock import lock_checkpoint
from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import ADVICE, file_error, naming
from cqels_opt.trace.writer import TraceFile
from cqels_opt.windows.replay import ReplaySource, cut

NO_SPACE = "No space left on device: free some space, or name another place"
IN_A_WORKER = """[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function.
  File "slots.py", line 9, in write
OSError: [Errno 28] No space left on device: '/data/state/slots/1.arrow'
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (IN_A_WORKER, f"/data/state/slots/1.arrow: {NO_SPACE}"),
        (
            "java.io.FileNotFoundException: /data/spark/offsets/.1.tmp (Read-only file system)\n\tat java.base",
            "/data/spark/offsets/.1.tmp: Read-only file system: make it writable, or name another place",
        ),
        (
            "ERROR: java.io.FileNotFoundException: file:/a b/c (Permission denied)",
            "/a b/c: Permission denied: give this user the right to it, or name another place",
        ),
        ("java.nio.file.FileSystemException: /tmp/x: No space left on device", f"/tmp/x: {NO_SPACE}"),
        (
            "java.nio.file.AccessDeniedException: /a/b\n\tat sun.nio",
            "/a/b: Permission denied: give this user the right to it, or name another place",
        ),
        (
            "java.io.IOException: Mkdirs failed to create file:/a/offsets (exists=false, cwd=file:/)",
            "/a/offsets: Permission denied: give this user the right to it, or name another place",
        ),
        ("java.io.IOException: No space left on device", f"/the/checkpoint or /the/scratch: {NO_SPACE}"),
        ("OSError: 1000 requested and 24 written", f"/the/checkpoint or /the/scratch: {NO_SPACE}"),
        (
            "OSError: Not enough free space to write 20577850 bytes after offset 128",
            f"/the/checkpoint or /the/scratch: {NO_SPACE}",
        ),
    ],
)
def test_what_spark_says_of_a_file(text: str, said: str) -> None:
    found = file_error(PySparkException(text), ("/the/checkpoint", "/the/scratch"))
    assert isinstance(found, FileError) and str(found) == said
    assert file_error(RuntimeError(text), ("/the/checkpoint",)) is None, "what the user's own code raises may have any text"


@pytest.mark.parametrize("text", ["", "x is not a column", "[Errno 99] Cannot assign requested address", "Connection refused"])
def test_what_is_not_of_a_file(text: str) -> None:
    assert file_error(RuntimeError(text)) is None
    assert file_error(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")) is None
    assert file_error(ValueError("x")) is None


@pytest.mark.parametrize("number", ADVICE)
def test_every_reason_has_an_advice(number: int) -> None:
    found = str(file_error(OSError(number, os.strerror(number), "/a")))
    assert found.startswith(f"/a: {os.strerror(number)}: ") and len(found) > len(f"/a: {os.strerror(number)}: ")


def test_the_cause_counts() -> None:
    """Regardless of how often an exception was wrapped."""
    try:
        try:
            with naming("/a"):
                raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RunError("the run failed") from error
    except RunError as failed:
        assert str(file_error(failed)) == f"/a: {NO_SPACE}"


@pytest.mark.parametrize(
    "said", ["1000 requested and 24 written", "Not enough free space to write 20577850 bytes after offset 128"]
)
def test_an_array_that_is_cut_off(said: str) -> None:
    """numpy's error has neither a number nor a path."""
    with pytest.raises(OSError) as failed, naming("/store/0.text.npy"):
        raise OSError(said)
    assert str(file_error(failed.value)) == f"/store/0.text.npy: {NO_SPACE}"


@pytest.mark.parametrize(("number", "named"), [(errno.ENOSPC, "/out"), (errno.EROFS, "/out"), (errno.EACCES, "/state")])
def test_a_copy_that_cannot_write_names_its_target(number: int, named: str) -> None:
    assert str(file_error(OSError(number, os.strerror(number), "/state", None, "/out"))).startswith(f"{named}: ")


def test_the_place_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several, if the exception names none."""
    free = {tmp_path: 0, Path("/"): 1 << 30}

    def statvfs(place: Path) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 0, 0, free[place] // 4096, 0, 0, 0, 0, 255))

    monkeypatch.setattr(os, "statvfs", statvfs)
    assert str(file_error(OSError(errno.ENOSPC, "No space left on device"), (Path("/"), tmp_path))) == f"{tmp_path}: {NO_SPACE}"


# ------------------------------------------------------------------ real failures
WRITES: dict[str, Callable[[Path], object]] = {
    "a record": lambda path: disk.write_atomically(path, b"x" * 10_000),
    "a trace": lambda path: TraceFile(path).restore(0, "") or open_and_fill(path),
    "a checkpoint's lock": lambda path: path.mkdir() or lock_checkpoint(path),
    "a mark": lambda path: claim_file(path, Owner("x" * 10_000, path), 0),
    "a copy": lambda path: path.touch() or disk.link(Path(os.__file__), path),  # no link: the file exists
    "a chunk of a replay": lambda path: cut_lines(path, [json.dumps({**ROW, "t": t}) for t in range(900)]),
    "rejected lines of a replay": lambda path: cut_lines(path, ["x"] * 50),
    "many rejected lines of a replay": lambda path: cut_lines(path, ["x"] * 500),
}
ROW = {"s": "<a:a>", "p": "<a:b>", "o": "<a:c>"}


def cut_lines(folder: Path, lines: list[str]) -> None:
    source = folder.parent.parent / f"{folder.parent.name}.ndjson.gz"  # not in the folder that the sentence has to name
    source.write_bytes(gzip.compress("\n".join(lines).encode()))
    cut([ReplaySource("http://s", (source,))], folder, on_error="skip")


def open_and_fill(path: Path) -> None:
    with naming(path), path.open("ab", buffering=0) as file:
        file.write(b"x" * 5000)
        file.write(b"x" * 5000)


@pytest.mark.parametrize("what", WRITES)
def test_a_file_that_may_not_become_larger(what: str, tmp_path: Path) -> None:
    """The exception of a write has no path; the sentence does."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 if "lock" in what else 5000, resource.RLIM_INFINITY))
            WRITES[what](tmp_path / "file")
        except OSError as error:
            said = str(file_error(error))
            os._exit(0 if str(tmp_path) in said and "File too large: raise the limit" in said else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("most", [500, 2_000, 20_000, 40_000])
def test_a_store_whose_files_may_not_become_larger(most: int, tmp_path: Path) -> None:
    """Which file fails depends on the limit: that of quads, of terms, of texts, of an index. Each sentence has its path."""
    data, said = tmp_path / "data.nt", tmp_path / "said"
    data.write_text("".join(f'<a:s{i}> <a:p> "text {i}" .\n' for i in range(3_000)))
    child = os.fork()
    if child == 0:
        code = 9
        try:
            sys.dont_write_bytecode = True
            sys.stderr = said.open("w", buffering=1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            code = main.main(["load", str(data), "--store", str(tmp_path / "store"), "--engine", "local"])
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    (line,) = said.read_text().splitlines()
    assert re.match(rf"{tmp_path}/\S+\.(npy|arrow|json|blocks): (No space left on device|File too large): ", line), line


def complaint(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In any phase of a command."""

    def fail(_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system", "/state/commits")

    monkeypatch.setitem(main._COMMANDS, "store", fail)
    said = complaint(["store", "info", str(tmp_path)], capsys)
    assert said == "/state/commits: Read-only file system: make it writable, or name another place"


OPTIONS = ("--checkpoint", "--out", "--trace", "--store", "--static", "--stream http://s", "--graph http://g")


@pytest.mark.parametrize("option", OPTIONS)
def test_a_name_that_is_not_utf_8(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.rq").write_text("")
    name = os.fsdecode(bytes(tmp_path / "a") + b"\xff")
    said = complaint(["run", str(tmp_path / "q.rq"), *option.split(), name], capsys)
    assert re.match(rf"{option}: b'.*a\\xff': the name is not UTF-8: rename it", said)


def test_a_folder_that_another_user_may_not_write_to(tmp_path: Path) -> None:
    """Root may write to it, so the test uses another user's process."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    code = f"""
import os
from pathlib import Path
from cqels_opt.storage.file_errors import file_error
from cqels_opt.state.commit_log import CommitLog
if os.geteuid() == 0:
    os.setuid(65534)
try:
    CommitLog(Path({str(folder)!r}) / "checkpoint")
except OSError as error:
    print(file_error(error))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    denied = ": Permission denied: give this user the right to it, or name another place\n"
    assert said.stdout.startswith(f"{folder}/checkpoint") and said.stdout.endswith(denied), said
