"""Exactly once: readers of a folder of answers see whole batches only, and after any number of deaths those of an undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as pa_dataset
import pytest
from local_runs import Cut, register
from random_cases import make

from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.output_owner import MARK
from cqels_opt.storage import disk

from .answer_folder_process import HOW, prepared, started

SCRIPT = Path(__file__).with_name("answer_folder_process.py")
Batches = dict[int, Counter[tuple[Any, ...]]]


def by_arrow(out: Path) -> Batches:
    """What pyarrow reads, by batch."""
    found: Batches = {}
    for row in pa_dataset.dataset(out, partitioning="hive").to_table().to_pylist():
        found.setdefault(row.pop("batch"), Counter())[tuple(map(str, row.values()))] += 1
    return found


def by_duckdb(out: Path) -> Batches:
    """What DuckDB reads, by batch."""
    found: Batches = {}
    if not any(out.glob("*/*.parquet")):
        return found
    asked = "SELECT batch, CAST(epoch_ms(time) AS BIGINT), op, a, b, x FROM read_parquet(?, hive_partitioning = true)"
    for batch, *row in duckdb.connect().execute(asked, [str(out / "**" / "*.parquet")]).fetchall():
        found.setdefault(int(batch), Counter())[tuple(map(str, row))] += 1
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    query = prepared(folder)
    driver = started(query, folder)
    for number, rows in enumerate(query.chunks(HOW)):
        driver.batch(number, rows)
    assert len(by_arrow(folder / "out")) > 30
    return folder


@pytest.mark.long
def test_kill_9_at_random_points(whole: Path, tmp_path: Path) -> None:
    """A reader comes as often as it can while the run is killed and started again; then the folder is that of an undisturbed run."""
    rng, out = random.Random(1), tmp_path / "out"
    shutil.copytree(whole / "q", tmp_path / "q")  # the data; the state is its own
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH", "")])}
    wanted, deaths, reads = by_duckdb(whole / "out"), 0, 0
    while True:
        run = subprocess.Popen([sys.executable, str(SCRIPT), str(tmp_path)], env=environment, stderr=subprocess.PIPE)
        had, more = len(list(out.glob("batch=*"))), rng.randint(1, 8)
        while run.poll() is None:
            seen = by_duckdb(out)
            assert all(rows == wanted[batch] for batch, rows in seen.items())
            reads += bool(seen)
            if len(seen) >= had + more and deaths < 3:
                time.sleep(rng.random() / 50)  # anywhere in a batch
                run.kill()
        _, said = run.communicate()
        if run.returncode == 0:
            break
        deaths += 1
        assert run.returncode < 0, said.decode()
        seen = by_duckdb(out)
        assert seen == {batch: rows for batch, rows in wanted.items() if batch <= max(seen)}
    assert by_duckdb(out) == wanted
    assert deaths == 3
    assert reads > 10


def dying(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The process dies before the operation of that number on the file system."""
    left = [after]

    def mortal(run: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return run(*given, **named)

        return called

    for name in ("rename", "link", "make_folder", "delete_folder", "delete", "sync", "flush"):
        monkeypatch.setattr(disk, name, mortal(getattr(disk, name)))


class KilledError(Exception):
    """Stands for ``kill -9``."""


@pytest.mark.parametrize("after", range(0, 30, 2))
def test_death_between_any_two_operations(after: int, whole: Path, tmp_path: Path) -> None:
    """Whatever was done before, readers see whole batches, and the next start makes the rest."""
    shutil.copytree(whole / "q", tmp_path / "q")
    query, wanted = prepared(tmp_path), by_arrow(whole / "out")
    driver, chunks = started(query, tmp_path), query.chunks(HOW)[:4]
    driver.batch(0, chunks[0])
    with pytest.MonkeyPatch.context() as patch:
        dying(patch, after)
        with suppress(KilledError):  # it may have finished before
            for number in (1, 2):
                driver.batch(number, chunks[number])
    seen = by_arrow(tmp_path / "out")
    assert seen == {batch: wanted[batch] for batch in range(len(seen))}
    driver = started(query, tmp_path)
    for number in range(driver.state.batch, 4):  # the last one once more, as Spark may ask
        driver.batch(number, chunks[number])
    assert by_arrow(tmp_path / "out") == {batch: wanted[batch] for batch in range(4)}
    assert not list((tmp_path / ".out.writing").iterdir())


def test_a_batch_that_runs_again_leaves_its_files(tmp_path: Path) -> None:
    """Who reads them is not disturbed."""
    query = prepared(tmp_path)
    driver, chunks = started(query, tmp_path), query.chunks(HOW)
    driver.batch(0, chunks[0])
    (file,) = (tmp_path / "out" / "batch=00000000").iterdir()
    with file.open("rb") as reader:
        driver.batch(0, chunks[0])
        assert reader.read() == file.read_bytes()
        assert os.fstat(reader.fileno()).st_ino == file.stat().st_ino


def test_what_another_run_left_goes(tmp_path: Path) -> None:
    """Its batches, where its checkpoint is there no longer; and none of the user's own files."""
    query = prepared(tmp_path)
    started(query, tmp_path).batch(0, query.chunks(HOW)[0])
    (tmp_path / "out" / "batch=00000000").rename(tmp_path / "out" / "batch=00000007")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    shutil.rmtree(tmp_path / "state")
    started(query, tmp_path).batch(0, query.chunks(HOW)[0])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MARK, "batch=00000000", "notes.txt"]


@pytest.mark.parametrize("seed", range(6))
def test_the_rows_of_random_queries(seed: int, tmp_path: Path) -> None:
    """Those of the lines, in each batch, whatever the number of parts."""
    case = make(7_000 + seed)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how = Cut("7", split=1 + seed % 2, parts=[None, 3][seed % 2])
    lines = query.run(how).lines
    driver = query.driver(how, tmp_path / "state", sink=FolderSink(tmp_path / "out"))
    for number, rows in enumerate(query.chunks(how)):
        driver.batch(number, rows)
    found = by_arrow(tmp_path / "out") if any((tmp_path / "out").glob("batch=*")) else {}
    assert sum(rows.total() for rows in found.values()) == len(lines)
