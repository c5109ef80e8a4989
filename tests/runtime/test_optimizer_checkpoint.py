"""A run that is stopped after each batch and started again chooses the plans, with the estimates, of one that is not."""

from __future__ import annotations

import random
import warnings
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import local_runs
import pytest
from local_runs import Cut, Registered, register, told
from random_cases import make

from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.runtime.optimizer_checkpoint import optimizer_file
from cqels_opt.state.pending_counts import read_counts
from cqels_opt.stats import summary
from cqels_opt.stats.packing import unpack
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.storage.sealed_files import opened_whole
from cqels_opt.trace.records import TraceRecord


def at_once(query: Registered, how: Cut) -> list[dict[str, Any]]:
    driver = query.driver(how)
    return told([r for number, rows in enumerate(query.chunks(how)) for r in driver.batch(number, rows)])


def stopped_each_time(query: Registered, how: Cut, folder: Path) -> list[dict[str, Any]]:
    records: list[TraceRecord] = []
    sink = LocalSink()
    for number, rows in enumerate(query.chunks(how)):
        records += query.driver(how, folder, sink=sink).batch(number, rows)
    return told(records)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_restart_goes_on_as_if_nothing_had_happened(seed: int, tmp_path: Path) -> None:
    case = make(9_000 + seed)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how = Cut(["3", "7", "500ms"][seed % 3], ["adaptive", "static", "worst", "first"][seed % 4], 1 + seed % 2)
    assert stopped_each_time(query, how, tmp_path / "state") == at_once(query, how)


MODES = ("adaptive", "static", "worst", "first", "adaptive")


@pytest.mark.parametrize("pulled", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_a_restart_may_have_another_mode(seed: int, pulled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint of a mode has sets of relations that the memo of another one does not have; filters may be operators in one only."""
    rng, case = random.Random(seed), make(9_200 + seed)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    size, sink = ["3", "7", "500ms"][seed % 3], LocalSink()
    placing = cycle(["early", "late"] if pulled else ["cost"])
    mode = local_runs._mode
    monkeypatch.setattr(local_runs, "_mode", lambda plan: replace(mode(plan), placing=next(placing)))
    for number, rows in enumerate(query.chunks(Cut(size))):
        if number == 0 or rng.random() < 0.5:
            driver = query.driver(Cut(size, rng.choice(MODES)), tmp_path / "state", sink=sink)
        driver.batch(number, rows)
    assert query.answers(sink.lines) == query.run(Cut(size)).answers


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_observed_rows_may_be_lost(damage: bytes | None, seed: int, tmp_path: Path) -> None:
    """Before each batch: answers are those of a run that loses nothing, and each loss is named in the trace."""
    case = make(9_100 + seed)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how, folder, sink, whole = Cut(["3", "7", "500ms"][seed % 3]), tmp_path / "state", LocalSink(), LocalSink()
    chunks = query.chunks(how)
    undisturbed = query.driver(how, sink=whole)
    for number, rows in enumerate(chunks):
        undisturbed.batch(number, rows)
    for number, rows in enumerate(chunks):
        if number == 0:
            query.driver(how, folder, sink=sink).batch(number, rows)
            continue
        newest = max((folder / "optimizer").iterdir())
        if damage is None:
            newest.unlink()
        else:
            newest.write_bytes(damage)
        with pytest.warns(RuntimeWarning, match=f"statistics of the optimizer are lost and are counted again: {newest}") as told:
            driver = query.driver(how, folder, sink=sink)
        (record,) = driver.batch(number, rows)
        assert all(str(one.message).count(str(newest)) == 1 for one in told)
        assert record.notices == tuple(str(one.message) for one in told if issubclass(one.category, RuntimeWarning))
        assert TraceRecord.from_json(record.to_json()) == record
    assert sorted(sink.lines) == sorted(whole.lines)


def test_counts_that_wait_are_counted_again(tmp_path: Path) -> None:
    """Rows that the frontier has not passed are in the statistics once it has, as if nothing had been lost."""
    case = make(9_104)
    query = register(case.query(), case.world, tmp_path / "q", replace(case.settings, lateness=1_000))
    how = Cut("3", tiers=CompactionPolicy())
    chunks, folders = query.chunks(how), (tmp_path / "whole", tmp_path / "lost")
    windows = []
    for folder in folders:
        query.driver(how, folder).batch(0, chunks[0])
        if folder.name == "lost":
            (folder / "optimizer" / "00000000.bin").unlink()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            driver = query.driver(how, folder)
        waiting = {
            key: sum(read_counts(driver.folder, one).total for one in some) for key, some in driver.ingest_state.pending.items()
        }
        windows.append(({key: total for key, total in waiting.items() if total}, driver.batch(1, chunks[1])[0].windows))
    assert windows[0][0]
    assert windows[0] == windows[1]


def checkpoint_of(query: Registered, how: Cut, folder: Path) -> Driver:
    """A run of all batches."""
    driver = query.driver(how, folder)
    for number, rows in enumerate(query.chunks(how)):
        driver.batch(number, rows)
    return driver


def files_of(driver: Driver) -> set[str]:
    return {path.relative_to(driver.folder).as_posix() for path in (driver.folder / "optimizer").iterdir()}


def test_statistics_of_a_slot_are_written_once(tmp_path: Path) -> None:
    """Each batch writes its own slots and refers to the files of those before; the files that nothing refers to are deleted."""
    case = make(9_104)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    folder, driver, written, referred = tmp_path / "state", query.driver(Cut("3"), tmp_path / "state"), [], []
    for number, rows in enumerate(query.chunks(Cut("3"))):
        driver.batch(number, rows)
        content = unpack(bytes(opened_whole(folder / driver.state.optimizer)))
        assert isinstance(content, dict)
        written.append(content["bodies"])
        referred.append(len(driver.state.statistics))
        assert {driver.state.optimizer, *driver.state.statistics} <= files_of(driver) <= driver.log.named()
    assert max(referred) > 0
    assert all(a != b for a, b in pairwise(written) if a)


def test_a_batch_that_runs_again_keeps_the_files_that_it_writes_again(tmp_path: Path) -> None:
    """Deletions that undone batches have scheduled are undone as well."""
    case = make(9_111)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how, chunks = Cut("3"), query.chunks(Cut("3"))
    whole = checkpoint_of(query, how, tmp_path / "whole")
    driver = query.driver(how, tmp_path / "state")
    for number, rows in enumerate(chunks[:3]):
        driver.batch(number, rows)
    driver.schedule_deletion(2, {optimizer_file(1)})  # as if batch 2 had moved the windows past the slots of batch 1
    for number, rows in [*enumerate(chunks)][1:]:
        driver.batch(number, rows)
        assert {driver.state.optimizer, *driver.state.statistics} <= files_of(driver)
    assert driver.state.statistics
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = query.driver(how, tmp_path / "state")
    assert [summary(b.statistics) for p in again.planners.values() for b in p.blocks.values()] == [
        summary(b.statistics) for p in whole.planners.values() for b in p.blocks.values()
    ]


@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_a_file_that_the_newest_refers_to_may_be_lost(damage: bytes | None, tmp_path: Path) -> None:
    case = make(9_104)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    folder = tmp_path / "state"
    older = folder / checkpoint_of(query, Cut("3"), folder).state.statistics[0]
    if damage is None:
        older.unlink()
    else:
        older.write_bytes(damage)
    with pytest.warns(RuntimeWarning, match=f"statistics of the optimizer are lost and are counted again: {older}"):
        query.driver(Cut("3"), folder)
