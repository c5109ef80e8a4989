"""The queries of a run share the statistics of their windows: one of each, whatever comes, goes or is restarted."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pytest
from different_query_cases import EX, DifferentRun, different
from local_runs import Cut, register, told

from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.runtime.driver import Driver
from cqels_opt.stats import summary
from cqels_opt.stats.packing import unpack
from cqels_opt.storage.sealed_files import opened_whole


def windows(driver: Driver) -> list[Any]:
    """The statistics of windows, as often as blocks read them."""
    return [w for p in driver.planners.values() for block in p.blocks.values() for w in block.statistics.windows.values()]


def summaries(planner: QueryPlanner) -> list[Any]:
    return [{**dict(summary(block.statistics)), "epoch": None} for block in planner.blocks.values()]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_statistics_are_those_of_each_query_alone(seed: int, tmp_path: Path) -> None:
    run = DifferentRun(different(random.Random(seed), 8), 8, Cut("5"), tmp_path)
    alone = [register(text, run.world, tmp_path / f"alone{i}") for i, text in enumerate(run.texts)]
    drivers = [query.driver(run.how) for query in alone]
    for number, rows in enumerate(run.chunks):
        run.driver.batch(number, rows)
        for query, driver in zip(alone, drivers):
            driver.batch(number, query.chunks(run.how)[number])
    assert len({id(window) for window in windows(run.driver)}) < len(windows(run.driver))
    for i, driver in enumerate(drivers):
        (planner,) = driver.planners.values()
        if (mine := run.driver.planners.get(f"d{i}")) is not None:  # None: an instance of a template
            assert summaries(mine) == summaries(planner), run.texts[i]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_a_restart_in_the_middle_changes_nothing(seed: int, tmp_path: Path) -> None:
    texts, rng = different(random.Random(seed), 6), random.Random(seed)
    runs = [DifferentRun(texts, 4, Cut("5"), tmp_path / name) for name in ("whole", "stopped")]
    changes = {3: ([4], [1]), 6: ([5], [0])}
    records: list[list[Any]] = [[], []]
    for number in range(len(runs[0].chunks)):
        for run, record in zip(runs, records):
            if run is runs[1] and rng.random() < 0.5:
                run.driver = run.opened()
            if number in changes:
                run.change(*changes[number])
            record += told(run.driver.batch(number, run.chunks[number]))
    assert records[0] == records[1]
    assert runs[0].sink.lines == runs[1].sink.lines


@pytest.mark.long
def test_windows_of_removed_queries_are_forgotten(tmp_path: Path) -> None:
    """Also if the same query comes back: what happened in between is counted."""
    texts = different(random.Random(1), 8)
    runs = [DifferentRun(texts, 8, Cut("5"), tmp_path / name) for name in ("stays", "leaves")]
    for number in range(len(runs[0].chunks)):
        for run in runs:
            if run is runs[1] and number == 3:
                run.change(go=range(1, 8))
            if run is runs[1] and number == 6:
                run.change(come=range(1, 8))
            run.driver.batch(number, run.chunks[number])
        gc.collect()
        if 3 <= number < 6:
            assert len(runs[1].driver.shared_windows) == len({id(window) for window in windows(runs[1].driver)})
    for run in runs:
        assert run.lines_of(0) == run.alone(0)


def test_statistics_begin_with_the_query(tmp_path: Path) -> None:
    """A query that begins with empty windows does not see the elements before it, although their counts may come later."""
    text = f"PREFIX : <{EX}> SELECT ?p ?x FROM NAMED :S [RANGE 2s] AS ?w {{ GRAPH ?w {{ ?p :at ?x }} }}"
    run = DifferentRun([text, text.replace("2s", "5s")], 1, Cut("5"), tmp_path)
    for number, rows in enumerate(run.chunks):
        if number == 3:
            run.change(come=[1])
        run.driver.batch(number, rows)
        if number >= 3:
            since = run.driver.state.since["d1"]
            (planner,) = run.driver.planners["d1"].blocks.values()
            chunks = [chunk for window in planner.statistics.windows.values() for chunk in window.chunks()]
            assert all(chunk.first_start > since for chunk in chunks)
    assert chunks


def test_counts_of_removed_queries_are_forgotten(tmp_path: Path) -> None:
    """A pattern that no query reads any more has no entry that each batch goes through."""
    text = f"PREFIX : <{EX}> SELECT ?p ?x FROM NAMED :S [RANGE 2s] AS ?w {{ GRAPH ?w {{ ?p :at ?x }} }}"
    texts = [text.replace(":at", ":val"), text]
    run = DifferentRun(texts, 2, Cut("5"), tmp_path)
    for number, rows in enumerate(run.chunks):
        if number == 3:
            run.change(go=[0])
        run.driver.batch(number, rows)
        shapes = {shape.stream + shape.key for shape in run.driver.shapes}
        assert number == 3 or run.driver.ingest_state.pending.keys() <= shapes


def test_a_checkpoint_has_each_window_once(tmp_path: Path) -> None:
    texts = different(random.Random(2), 8)
    run = DifferentRun(texts, 8, Cut("5"), tmp_path)
    for number, rows in enumerate(run.chunks):
        run.driver.batch(number, rows)
        content: Any = unpack(bytes(opened_whole(run.driver.folder / run.driver.state.optimizer)))
        assert len(content["windows"]) == len({id(window) for window in windows(run.driver)})
