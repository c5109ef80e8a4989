"""Counts that wait for a silent stream: what a batch writes of them does not grow with how many wait."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from local_runs import World, register

from cqels_opt.errors import EngineWarning
from cqels_opt.runtime import ingest_state
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.ingest import COUNT_PARTS
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.state.pending_counts import HELD, KIND, read_counts
from cqels_opt.stats import summary
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

EX = "http://ex.org/"
QUERY = f"""PREFIX : <{EX}> SELECT ?p ?q FROM NAMED :S [RANGE 5s] AS ?u FROM NAMED :T [RANGE 5s] AS ?w
{{ GRAPH ?u {{ ?p :at ?x }} GRAPH ?w {{ ?q :at ?x }} }}"""
S, T = f"{EX}S", f"{EX}T"


def rows(stream: int, first: int, count: int) -> pa.Table:
    """Elements of a live stream, one each 10 ms, each of another person."""
    found = [
        {
            "stream": stream,
            "partition": stream,
            "offset": n,
            "s": f"<{EX}person{n}>",
            "p": f"<{EX}at>",
            "o": f"<{EX}room{n % 7}>",
            "g": None,
            "t": 1000 + n * 10,
            "late": False,
            "line": 1,
        }
        for n in range(first, first + count)
    ]
    return pa.Table.from_pylist(found, schema=ELEMENT_ROWS)


def driver(tmp_path: Path) -> Driver:
    query = register(QUERY, World({S: [[]], T: [[]]}), tmp_path / "q")
    return Driver(
        tmp_path / "state", [query.program], LocalRunner(), LocalSink(), Frontier(query.program.streams), DriverOptions()
    )


def written(run: Driver, number: int) -> int:
    """The bytes of what the optimizer keeps that a batch has written."""
    names = {run.state.optimizer, *(f.path for f in run.state.files if f.kind == KIND)}
    return sum((run.folder / name).stat().st_size for name in names if f"{number:08d}" in name)


def waiting(run: Driver) -> list[tuple[str, int, list[int], list[int]]]:
    found = [(key, read_counts(run.folder, one)) for key, waiting in run.ingest_state.pending.items() for one in waiting]
    return [(key, c.slot, c.times.tolist(), c.rows.tolist()) for key, c in found]


def by_time(run: Driver) -> dict[tuple[str, int], int]:
    """The rows that wait by key and time, however they are cut into parts."""
    return {(key, t): n for key, _, times, counts in waiting(run) for t, n in zip(times, counts, strict=True)}


@pytest.mark.long
def test_a_silent_stream_makes_no_batch_write_more(tmp_path: Path) -> None:
    run = driver(tmp_path)
    run.batch(0, pa.concat_tables([rows(0, 0, 50), rows(1, 0, 1)]))
    sizes = []
    for number in range(1, 121):
        run.batch(number, rows(0, 50 * number, 50))
        sizes.append(written(run, number))
    assert sum(f.kind == KIND for f in run.state.files) > 100  # all of them wait
    assert max(sizes) < 1.2 * min(sizes), sizes
    held = [one for some in run.ingest_state.pending.values() for one in some if one.counts is not None]
    assert 0 < len(held) <= (HELD + 1) * (COUNT_PARTS + 1)  # memory does not grow with the counts that wait
    run.batch(121, rows(1, 60_000, 1))  # and wait no longer
    assert [f.least for f in run.state.files if f.kind == KIND] == [61_000, 601_000]  # the last batch of each stream


def test_counts_are_read_again_when_the_frontier_passes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for held in (0, 100):
        monkeypatch.setattr(ingest_state, "HELD", held)
        run = driver(tmp_path / str(held))
        for number in range(20):
            run.batch(number, rows(0, 50 * number, 50))
        run.batch(20, rows(1, 800, 1))
        found.append(summary(next(iter(run.planners["q"].blocks.values())).statistics))
    assert found[0] == found[1]


def test_counts_that_are_lost_while_they_wait_cost_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_state, "HELD", 0)
    lines = list[list[str]]()
    for lost in (False, True):
        run = driver(tmp_path / str(lost))
        run.batch(0, rows(0, 0, 50))
        run.batch(1, rows(0, 50, 50))
        if lost:
            (run.folder / "slots/pending-00000000.zip").unlink()
            with pytest.warns(EngineWarning, match="statistics of the optimizer are incomplete"):
                run.batch(2, rows(1, 90, 1))
        else:
            run.batch(2, rows(1, 90, 1))
        assert isinstance(run.sink, LocalSink)
        lines.append(run.sink.lines)
    assert lines[0] == lines[1]


def test_what_waits_is_the_same_after_a_restart(tmp_path: Path) -> None:
    run = driver(tmp_path)
    for number in range(5):
        run.batch(number, rows(0, 50 * number, 50))
    run.batch(5, rows(1, 120, 1))  # the frontier is within the third batch
    again = driver(tmp_path)
    assert len(waiting(run)) > 5
    assert waiting(again) == waiting(run)
    assert again.ingest_state.counted == run.ingest_state.counted


@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_a_damaged_file_is_counted_again(damage: bytes | None, tmp_path: Path) -> None:
    run = driver(tmp_path)
    run.batch(0, rows(0, 0, 50))
    before = by_time(run)
    (file,) = (run.folder / f.path for f in run.state.files if f.kind == KIND)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    with pytest.warns(EngineWarning, match=r"are counted again: .*pending-00000000\.zip"):
        again = driver(tmp_path)
    assert by_time(again) == before
    (record,) = again.batch(1, rows(1, 0, 1))
    assert "pending-00000000" in record.notices[0]
    assert [f.path for f in again.state.files if f.kind == KIND] == ["slots/pending-00000001.zip"]
