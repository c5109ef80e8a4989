"""Which run an output belongs to: a second one, another one's, and what no run has written is refused and left as it is."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, Registered, World, register

from cqels_opt.errors import InputError
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.runtime.output_owner import MARK, Owner, claim_file
from cqels_opt.trace.writer import TraceFile
from cqels_opt.verify import Element

HOW = Cut("4")


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Registered:
    return register(
        "SELECT * FROM NAMED <http://x.org/S> [NOW] AS ?w { GRAPH ?w { ?s ?p ?o } }",
        World({"http://x.org/S": [[Element(t, ((f"<urn:s{t}>", "<urn:p>", "<urn:o>"),)) for t in range(1, 13)]]}),
        tmp_path_factory.mktemp("q"),
    )


def lines(query: Registered, folder: Path, checkpoint: str, batches: int = 3) -> Any:
    """A run whose answers go to ``folder/out`` as lines; it continues where it was."""
    return run(query, query.driver(HOW, folder / checkpoint, sink=FileSink(folder / "out")), batches)


def parquet(query: Registered, folder: Path, checkpoint: str, batches: int = 3) -> Any:
    """The same as a folder of Parquet."""
    return run(query, query.driver(HOW, folder / checkpoint, sink=FolderSink(folder / "out")), batches)


def traced(query: Registered, folder: Path, checkpoint: str, batches: int = 3) -> Any:
    """The trace in ``folder/out``."""
    return run(query, query.driver(HOW, folder / checkpoint, trace=TraceFile(folder / "out")), batches)


def run(query: Registered, driver: Any, batches: int) -> Any:
    for number, rows in enumerate(query.chunks(HOW)[:batches]):
        if number > driver.state.batch:
            driver.batch(number, rows)
    return driver


def content(path: Path) -> dict[str, bytes]:
    """Everything in a file or folder but a folder's mark."""
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file() and found.name != MARK]
    return {str(found.relative_to(path)): found.read_bytes() for found in files}


OUTPUTS = pytest.mark.parametrize("start", [lines, parquet, traced])
Start = Callable[..., Any]


@OUTPUTS
def test_what_no_run_has_written_is_left(start: Start, query: Registered, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if start is parquet:
        (out / "batch=20240101").mkdir(parents=True)
        (out / "batch=20240101" / "mine.parquet").write_text("mine")
    else:
        out.write_text("mine")
    before = content(out)
    said = "batch=20240101" if start is parquet else "it is not empty"
    with pytest.raises(InputError, match=rf"out: .*{said}, and no run of cqels-opt has written it: name another output"):
        start(query, tmp_path, "a")
    assert content(out) == before


@OUTPUTS
def test_the_output_of_another_run_is_left(start: Start, query: Registered, tmp_path: Path) -> None:
    """As long as that one can go on."""
    start(query, tmp_path, "a")
    before = content(tmp_path / "out")
    with pytest.raises(InputError, match=r"out: it has the output of the run with the checkpoint .*/a: name another"):
        start(query, tmp_path, "b")
    assert content(tmp_path / "out") == before
    start(query, tmp_path, "a")
    assert content(tmp_path / "out") == before
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "b")
    start(query, tmp_path, "b")
    assert content(tmp_path / "out").keys() == before.keys()


@OUTPUTS
def test_a_run_does_not_go_on_in_what_another_one_has_written_since(start: Start, query: Registered, tmp_path: Path) -> None:
    start(query, tmp_path, "a", 1)
    (tmp_path / "a").rename(tmp_path / "moved")
    start(query, tmp_path, "b")
    gc.collect()  # a driver has the lock of its checkpoint as long as it is there
    before = content(tmp_path / "out")
    with pytest.raises(InputError, match=r"out: it has the output of the run with the checkpoint .*/b: name another"):
        start(query, tmp_path, "moved")
    assert content(tmp_path / "out") == before


@OUTPUTS
def test_an_output_without_a_mark_goes_on(start: Start, query: Registered, tmp_path: Path) -> None:
    """Of a version that made none."""
    start(query, tmp_path, "a", 1)
    out = tmp_path / "out"
    (out / MARK if out.is_dir() else out.with_name(f".out{MARK}")).unlink()
    start(query, tmp_path, "a")
    (tmp_path / "undisturbed").mkdir()
    start(query, tmp_path / "undisturbed", "a")
    assert content(out).keys() == content(tmp_path / "undisturbed" / "out").keys()


@OUTPUTS
def test_an_output_that_is_empty_is_taken(start: Start, query: Registered, tmp_path: Path) -> None:
    if start is parquet:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "notes.txt").write_text("mine")
    else:
        (tmp_path / "out").touch()
    start(query, tmp_path, "a")
    assert len(content(tmp_path / "out")) > (start is parquet)


SECOND = """
import sys
from pathlib import Path
from cqels_opt.runtime.output_owner import Owner, claim_file
try:
    claim_file(Path(sys.argv[1]), Owner("other", Path("nowhere")), 0)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_pipe_and_a_device_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """What a run writes is cut back to what it has committed, which neither can be; a mark next to a device would stay in its folder."""
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match=f"{place}: it is a device or a pipe, and a file is expected"):
            claim_file(place, Owner("r", tmp_path / "c"), 0)
    assert [*tmp_path.iterdir()] == [tmp_path / "pipe"] and not Path(f"/dev/.null{MARK}").exists()


def test_two_processes_do_not_write_to_one_output(tmp_path: Path) -> None:
    """Nor two runs of one process."""
    out = tmp_path / "out"
    held = claim_file(out, Owner("one", tmp_path), 0)
    said = subprocess.run([sys.executable, "-c", SECOND, str(out)], capture_output=True, text=True, check=True).stdout
    assert said == f"InputError {out}: another run (process {os.getpid()}) writes to it: name another output\n"
    del held
    said = subprocess.run([sys.executable, "-c", SECOND, str(out)], capture_output=True, text=True, check=True).stdout
    assert said == ""


@OUTPUTS
def test_two_runs_of_one_process(start: Start, query: Registered, tmp_path: Path) -> None:
    """The first one has not written anything yet."""
    first = start(query, tmp_path, "a", 0)
    with pytest.raises(InputError, match=r"out: it has the output of the run with the checkpoint .*/a"):
        start(query, tmp_path, "b")
    run(query, first, 3)


@pytest.mark.parametrize("text", ["", "{", '{"run": "x"', "[]", "\udcff"])
def test_a_mark_that_says_nothing(tmp_path: Path, text: str) -> None:
    """A power failure may leave one."""
    (tmp_path / f".out{MARK}").write_bytes(text.encode(errors="surrogateescape"))
    claim_file(tmp_path / "out", Owner("mine", tmp_path), 0)
    assert (tmp_path / f".out{MARK}").read_text().startswith('{"run": "mine"')
