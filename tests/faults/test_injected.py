"""Faults of the disk at any call, by seed: the answers are those of an undisturbed run, or one sentence says why there are none.

``CQELS_OPT_FAULTS=5000 make test TESTS=tests/faults`` runs more; ``-s`` prints the table of faults and outcomes.
"""

from __future__ import annotations

import gc
import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from faults.faulty_disk import KINDS, FaultyDisk, KilledError, Kind, random_fault
from local_runs import Cut, Registered, register
from random_cases import make

from cqels_opt.errors import CqelsOptError
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.state import result_store, window_state, worker_cache
from cqels_opt.storage import checksum
from cqels_opt.trace.writer import TraceFile

pytestmark = pytest.mark.xdist_group("faults")  # one process has the whole table
CASES = int(os.environ.get("CQELS_OPT_FAULTS", "16"))
WORLDS = (7_000, 7_004, 7_009, 7_021, 7_037, 7_042, 7_058)
"""Random cases with ten answers or more over eight batches or more."""

FAULTS = 8
"""Faults of one run, one after another, before it may end undisturbed."""


@dataclass
class Attempt:
    """One run over a folder with faults."""

    query: Registered
    how: Cut
    folder: Path
    folder_sink: bool
    rng: random.Random
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    merges: list[Callable[[], None]] = field(default_factory=list)

    def start(self) -> Driver:
        """A new process over what the last one left."""
        for held in (window_state._CONTENTS, result_store._HELD, worker_cache._PAGES):
            held.clear()
        checksum.VERIFIED.clear()
        self.merges.clear()
        gc.collect()  # the locks of a process end with it
        sink = FolderSink(self.folder / "out") if self.folder_sink else FileSink(self.folder / "out.jsonl")
        trace = TraceFile(self.folder / "trace.jsonl", self.folder)
        return self.query.driver(self.how, self.folder / "state", sink=sink, trace=trace, compaction_start=self.merges.append)

    def run(self, disk: FaultyDisk, kinds: list[Kind]) -> None:
        """Runs to the end, through a fault of each of the kinds. What ends a batch is the outcome of its fault."""
        chunks = self.query.chunks(self.how)
        left, driver, number = list(kinds), None, 0
        while number < len(chunks):
            fault = random_fault(left.pop(), self.rng) if left else None
            disk.set(fault)
            disk.seen = ""
            outcome = "exact"
            try:
                if driver is None:
                    driver = self.start()
                    number = driver.state.batch + 1
                while number < len(chunks) and not disk.seen:
                    driver.batch(number, chunks[number])
                    number += 1
                    while self.merges and self.rng.random() < 0.7:
                        self.merges.pop(0)()
            except KilledError:
                driver, outcome = None, "started again"
            except (CqelsOptError, OSError) as error:
                assert "\n" not in str(error) and "injected at" in str(error), error
                driver, outcome = driver if self.rng.random() < 0.3 else None, "one sentence"
            if fault is not None and disk.seen:
                self.outcomes[f"{fault.kind} at {disk.seen}", outcome] += 1
            if driver is not None:
                number = min(number, driver.log.newest + 1) if outcome == "one sentence" else number
        disk.set(None)

    def answers(self) -> object:
        """What readers of the sink see."""
        if not self.folder_sink:
            return (self.folder / "out.jsonl").read_bytes()
        found = sorted((self.folder / "out").glob("batch=*/*.parquet"))
        return [(p.parent.name, pa.parquet.read_table(p).to_pylist()) for p in found]


@pytest.fixture(scope="module")
def table() -> Counter[tuple[str, str]]:
    return Counter()


@pytest.mark.long
@pytest.mark.parametrize("number", range(CASES))
def test_answers_after_faults_are_those_of_an_undisturbed_run(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Counter[tuple[str, str]]
) -> None:
    rng = random.Random(number)
    case = make(WORLDS[number % len(WORLDS)])
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how = Cut(rng.choice(["3", "7"]), rng.choice(["adaptive", "static"]), rng.choice([1, 2]), rng.choice([None, 2]))
    folder_sink = rng.random() < 0.4
    runs = [Attempt(query, how, tmp_path / name, folder_sink, rng) for name in ("undisturbed", "disturbed")]
    for attempt in runs:
        attempt.folder.mkdir()
    runs[0].run(FaultyDisk(runs[0].folder, rng), [])
    disk = FaultyDisk(runs[1].folder, rng)
    with disk.installed(monkeypatch):
        runs[1].run(disk, [rng.choice(KINDS) for _ in range(FAULTS)])
    table.update(runs[1].outcomes)
    assert runs[0].answers()
    assert runs[1].answers() == runs[0].answers(), runs[1].outcomes
    with suppress(FileNotFoundError):
        (tmp_path / "q" / "answers.jsonl").unlink()


@pytest.mark.long
def test_the_table_of_faults_and_outcomes(table: Counter[tuple[str, str]]) -> None:
    """Every kind of fault happened, and at calls of every sort that changes files."""
    for (fault, outcome), times in sorted(table.items()):
        print(f"{fault:40} {outcome:16} {times:6}")
    kinds = {fault.split(" at ")[0] for fault, _ in table}
    calls = {fault.split(" at ")[1] for fault, _ in table}
    assert kinds == set(KINDS)
    assert len(calls) > min(8, CASES // 4)
