"""Merges that are slow or fail while a run continues: answers are those of a run whose merges are done at once, and inputs stay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, Registered, World, register

from cqels_opt.errors import EngineWarning, RunError
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.state.compaction import MergeResult, MergeTask
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.verify import Element

EX = "http://ex.org/"
QUERY = """PREFIX : <http://ex.org/>
SELECT ?a ?b FROM NAMED :S [RANGE 1 s] AS ?u FROM NAMED :S [NOW] AS ?z
WHERE { GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x } }"""
HOW = Cut("4", tiers=CompactionPolicy(files=2, rows=4, share=4))


class Failing(LocalRunner):
    """Merges fail in every way, and some succeed."""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked = self.failed = 0

    def merge(self, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        self.asked += 1
        if self.asked % 3 == 0:
            return super().merge(tasks)
        self.failed += len(tasks)
        if self.asked % 3 == 1:
            raise TypeError("zip() argument 2 is shorter than argument 1")
        return [RunError("no space left")] * len(tasks)


def registered(tmp_path: Path) -> Registered:
    elements = [Element(1000 + 40 * i, ((f"<{EX}p{i}>", f"<{EX}at>", f"<{EX}x{i % 3}>"),)) for i in range(240)]
    return register(QUERY, World({EX + "S": [elements]}), tmp_path / "q")


def run(query: Registered, folder: Path, **how: Any) -> tuple[LocalSink, Any]:
    sink = LocalSink()
    driver = query.driver(HOW, folder, sink=sink, **how)
    for number, rows in enumerate(query.chunks(HOW)):
        driver.batch(number, rows)
    return sink, driver


@pytest.mark.long
@pytest.mark.parametrize("delay", [1, 5, 12])
def test_merges_that_come_late(delay: int, tmp_path: Path) -> None:
    """By so many batches that all inputs have left the windows meanwhile. No merge misses a file."""
    query = registered(tmp_path)
    whole, _ = run(query, tmp_path / "whole")
    waiting: list[tuple[int, Callable[[], None]]] = []
    driver = query.driver(HOW, tmp_path / "late", sink=LocalSink(), compaction_start=lambda work: waiting.append((number, work)))
    for number, rows in enumerate(query.chunks(HOW)):
        while waiting and waiting[0][0] + delay <= number:
            waiting.pop(0)[1]()
        driver.batch(number, rows)
    assert driver.sink.lines == whole.lines
    assert driver.compaction.failures == 0
    assert driver.state.totals["failed merges"] == 0


@pytest.mark.long
def test_merges_that_fail(tmp_path: Path) -> None:
    """They are counted, and noted once of a kind; the answers are the same, and what can be merged is."""
    query = registered(tmp_path)
    whole, _ = run(query, tmp_path / "whole")
    runner = Failing()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sink, driver = run(query, tmp_path / "failing", runner=runner)
    assert sink.lines == whole.lines
    assert runner.asked >= 4
    assert driver.state.totals["failed merges"] == runner.failed
    noted = [str(one.message) for one in told if one.category is EngineWarning]
    assert [text.rpartition(": ")[0].rpartition(": ")[2] for text in noted] == ["TypeError", "RunError"]


def test_a_merge_that_runs_while_the_state_goes_back(tmp_path: Path) -> None:
    """A batch runs again during a merge: the inputs stay until the merge has ended, and its result is deleted."""
    query, waiting = registered(tmp_path), list[Callable[[], None]]()
    whole, _ = run(query, tmp_path / "whole")
    driver = query.driver(HOW, tmp_path / "late", sink=LocalSink(), compaction_start=waiting.append)
    chunks = list(query.chunks(HOW))
    for number, rows in enumerate(chunks):
        driver.batch(number, rows)
        if number == 20:
            assert len(waiting) == 1 and driver.compaction.reading
            driver.batch(number, rows)
            assert driver.compaction.reading <= {f"slots/{path.name}" for path in (driver.folder / "slots").iterdir()}
        while waiting and number > 20:
            waiting.pop()()
    assert driver.sink.lines == whole.lines
    results = {task.path for task in driver.compaction._round.tasks}  # which the next batch takes
    assert unnamed(driver) == results


def unnamed(driver: Any) -> set[str]:
    """The files of windows that the state does not name, and that are not deleted later."""
    named = {file.path for file in driver.state.files}.union(*(paths for _, paths in driver.scheduled_deletions))
    return {f"slots/{path.name}" for path in (driver.folder / "slots").iterdir()} - named


def test_a_run_leaves_no_file_that_nothing_names(tmp_path: Path) -> None:
    """Times of elements that are merged by the batch that they are of are not written apart."""
    _, driver = run(registered(tmp_path), tmp_path / "state")
    assert {"times", "segment", "terms"} <= {file.kind for file in driver.state.files}
    assert unnamed(driver) == set()
