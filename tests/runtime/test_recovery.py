"""Recovery without Spark (DESIGN §4.7): killed anywhere and started again, a run gives the same answers, and the same trace."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import local_runs
import pyarrow as pa
import pytest
from local_runs import Cut, Registered, World, most_merged, register, told
from random_cases import SIX_RELATIONS, make, seeds_with_answers

from cqels_opt.bench.false_statistics import FALSIFIED, falsified
from cqels_opt.errors import CheckpointError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner import row_limits
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.evaluate_task import EvaluateTask, FinishReport
from cqels_opt.runtime.ingest import IngestReport, IngestTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.state import result_store, window_state
from cqels_opt.state.commit_log import CommitLog
from cqels_opt.state.compaction import PAGE_SHARE
from cqels_opt.state.run_identity import ANONYMOUS, NAME, Identity
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import Element

EX = "http://ex.org/"


class KilledError(Exception):
    """Stands for ``kill -9``: nothing after it happens."""


class Fate:
    """Dies at one of the points that a run passes, counted from 0."""

    def __init__(self) -> None:
        self.left = -1

    def point(self) -> None:
        """A point at which a process can die."""
        self.left -= 1
        if self.left == -1:
            raise KilledError


class MortalRunner(LocalRunner):
    """Dies before or after a stage."""

    def __init__(self, split: int, fate: Fate) -> None:
        super().__init__(split)
        self.fate = fate

    def ingest(self, rows: pa.Table, task: IngestTask) -> list[IngestReport]:
        self.fate.point()
        done = super().ingest(rows, task)
        self.fate.point()
        return done

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        self.fate.point()
        done = super().evaluate(tasks, parts)
        self.fate.point()
        return done


class MortalSink(LocalSink):
    """What it has put out stays when the process dies, like a file."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self.fate = fate

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        self.fate.point()
        if self.fate.left == 0:  # dies with half of the lines written
            self.lines.append("half a line")
        lengths = super().put(batch, chunks, folder)
        self.fate.point()
        return lengths


class MortalTrace:
    """A trace that is cut back to what was committed."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate
        self.records: list[TraceRecord] = []

    digest = ""

    def restore(self, length: int, digest: str) -> None:
        del self.records[length:]

    def put(self, records: Sequence[TraceRecord]) -> int:
        self.records += records
        self.fate.point()
        return len(self.records)


def undisturbed(query: Registered, how: Cut) -> tuple[list[str], list[dict[str, Any]]]:
    fate = Fate()
    sink, trace = MortalSink(fate), MortalTrace(fate)
    driver = query.driver(how, sink=sink, trace=trace)
    for number, rows in enumerate(query.chunks(how)):
        driver.batch(number, rows)
    return sink.lines, told(trace.records)


def disturbed(query: Registered, how: Cut, folder: Path, rng: random.Random) -> tuple[list[str], list[dict[str, Any]]]:
    """Each batch may die several times, and a batch that was committed may be run again."""
    fate = Fate()
    sink, trace = MortalSink(fate), MortalTrace(fate)

    def start() -> Driver:
        if rng.random() < 0.5:  # the executors' processes may live on, with what they had in memory
            window_state._CONTENTS.clear()
            result_store._HELD.clear()
        return query.driver(how, folder, MortalRunner(how.split, fate), sink, trace=trace)

    driver = start()
    chunks = query.chunks(how)
    number, deaths = 0, 0
    while number < len(chunks):
        fate.left = rng.randint(0, 7) if rng.random() < 0.5 and deaths < 40 else -1
        try:
            driver.batch(number, chunks[number])
        except KilledError:
            deaths += 1
            fate.left = -1
            if rng.random() < 0.7:  # else the batch has failed, and whoever called for it calls again
                driver = start()
            continue
        fate.left = -1
        roll = rng.random()
        if roll < 0.15:  # the record was written, but Spark had not noted it: the batch comes once more
            if roll < 0.08:
                driver = start()
            driver.batch(number, chunks[number])
        number += 1
    return sink.lines, told(trace.records)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(28))
def test_a_killed_run_gives_the_answers_of_an_undisturbed_one(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    case = make(7_000 + seed)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how = Cut(
        rng.choice(["3", "7", "500ms"]), rng.choice(["adaptive", "static", "worst"]), rng.choice([1, 3]), rng.choice([None, 3])
    )
    assert disturbed(query, how, tmp_path / "state", rng) == undisturbed(query, how)


@pytest.mark.parametrize("seed", seeds_with_answers(8))
def test_and_the_same_stopped_plans(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statistics are false and the limits on rows low, so that deltas are planned again in mid-batch."""
    monkeypatch.setattr(row_limits, "FEWEST", 1.0)
    monkeypatch.setattr(row_limits, "TIMES", 1.5)
    monkeypatch.setattr(local_runs, "_mode", lambda plan: PlannerOptions(plan, sampling_seconds=1.0))
    query, stopped = register(SIX_RELATIONS, make(seed).world, tmp_path / "q"), 0
    for lot, falsify in enumerate(FALSIFIED.values()):
        with falsified(falsify, seed):
            lines, records = undisturbed(query, Cut("3"))
            again = disturbed(query, Cut("3"), tmp_path / f"state{lot}", random.Random(seed))
        assert (lines, records) == again
        stopped += sum(len(delta.stopped) for record in records for delta in record["deltas"])
    assert stopped or len(records) < 12


@pytest.mark.parametrize("seed", range(8))
def test_merges_beside_the_batches_change_no_answer(seed: int, tmp_path: Path) -> None:
    """They end late, or after the driver that asked for them, or are lost with it."""
    rng = random.Random(seed)
    case = make(7_100 + seed)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how = Cut("3", "adaptive", rng.choice([1, 3]))
    waiting: list[Callable[[], None]] = []
    sink, state = LocalSink(), tmp_path / "state"
    driver = query.driver(how, state, sink=sink, compaction_start=waiting.append)
    for number, rows in enumerate(query.chunks(how)):
        driver.batch(number, rows)
        if rng.random() < 0.2:
            driver = query.driver(how, state, sink=sink, compaction_start=waiting.append)
            del waiting[: rng.randint(0, 1)]
        while waiting and rng.random() < 0.6:
            waiting.pop(0)()
        assert all((state / f.path).exists() for f in driver.state.files)
    assert sink.lines == undisturbed(query, how)[0]


def test_what_no_record_names_goes_with_the_next_start(tmp_path: Path) -> None:
    query, _, state = started(tmp_path)
    left = [
        state / "slots" / "segment-00000002-lost-0.arrow",
        state / "results" / "00000003-half.arrow",
        state / "answers" / "00000003-q-half.jsonl",
    ]
    for path in left:
        path.write_bytes(b"half")
    driver = query.driver(Cut("3"), state)
    assert not [*(state / "answers").iterdir()]
    assert not any(path.exists() for path in left)
    assert all((state / f.path).exists() for f in driver.state.files)


def test_one_process_works_with_a_checkpoint(tmp_path: Path) -> None:
    """What it has in hand would look to another one like what a killed one left. Within the process there may be several."""
    query, _, state = started(tmp_path)

    def refused() -> bool:
        """In another process."""
        child = os.fork()
        if child == 0:
            try:
                query.driver(Cut("3"), state)
            except CheckpointError as error:
                os._exit(7 if f"another process ({os.getppid()}) works with this checkpoint" in str(error) else 1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) in (0, 7)
        return os.waitstatus_to_exitcode(status) == 7

    one, other = (query.driver(Cut("3"), state) for _ in range(2))
    assert refused()
    del one
    assert refused()
    del other
    gc.collect()
    assert not refused()


TWO = """PREFIX : <http://ex.org/>
SELECT ?a ?b ?x FROM NAMED :S [RANGE 1 s] AS ?u FROM NAMED :T [TRIPLES 3] AS ?z
WHERE { GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x } }"""


def started(tmp_path: Path, identity: Identity = ANONYMOUS) -> tuple[Registered, list[pa.Table], Path]:
    """A query that has run three batches over a folder."""
    world = make(seeds_with_answers(1)[0]).world
    query = register(TWO, world, tmp_path / "q")
    chunks = query.chunks(Cut("3"))
    driver = query.driver(Cut("3"), tmp_path / "state", identity=identity)
    for number in range(3):
        driver.batch(number, chunks[number])
    return query, chunks, tmp_path / "state"


def test_another_query_over_the_same_folder(tmp_path: Path) -> None:
    query, _, state = started(tmp_path, Identity({"q": TWO}))
    with pytest.raises(CheckpointError, match="its query differs"):
        query.driver(Cut("3"), state, identity=Identity({"q": TWO.replace("3", "4")}, windows=4))
    query.driver(Cut("3"), state, identity=Identity({"q": TWO}))


def test_the_records_of_another_version(tmp_path: Path) -> None:
    query, _, state = started(tmp_path)
    record = json.loads((state / NAME).read_text())
    (state / NAME).write_text(json.dumps({**record, "version": 99}))
    with pytest.raises(CheckpointError, match="version 99"):
        query.driver(Cut("3"), state)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"batch": 2}', '{"batch": 2, "files": [{"kind": "slot"}]}'])
def test_a_damaged_record(tmp_path: Path, damage: str) -> None:
    query, _, state = started(tmp_path)
    last = max((state / "commits").iterdir())
    last.write_text(damage)
    with pytest.raises(CheckpointError, match=r"commits.*damaged"):
        query.driver(Cut("3"), state)


def test_a_damaged_identity(tmp_path: Path) -> None:
    query, _, state = started(tmp_path)
    (state / NAME).write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        query.driver(Cut("3"), state)
    (state / NAME).unlink()
    with pytest.raises(CheckpointError, match="missing"):
        query.driver(Cut("3"), state)


def test_records_are_whole_or_not_there(tmp_path: Path) -> None:
    """What a process leaves that dies while it writes a record has a name that nobody reads."""
    query, chunks, state = started(tmp_path)
    (state / "commits" / ".000000000003.json").write_text("{")
    driver = query.driver(Cut("3"), state)
    assert driver.state.batch == 2
    driver.batch(3, chunks[3])
    assert CommitLog(state).last().batch == 3  # type: ignore[union-attr]


def test_a_folder_copied_elsewhere_goes_on(tmp_path: Path) -> None:
    query, chunks, state = started(tmp_path)
    shutil.copytree(state, tmp_path / "moved")
    here, there = (query.driver(Cut("3"), folder) for folder in (state, tmp_path / "moved"))
    for driver in (here, there):
        driver.batch(3, chunks[3])
    assert here.sink.lines == there.sink.lines  # type: ignore[attr-defined]


def test_old_files_go(tmp_path: Path) -> None:
    """What no later batch can need is deleted, a few batches late; what a record names is there."""
    world = make(seeds_with_answers(1)[0]).world
    elements = [replace(e, t=e.t + 20_000 * k) for k in range(20) for file in world.streams[EX + "S"] for e in file]
    long = replace(world, streams={EX + "S": [sorted(elements, key=lambda e: e.t)], EX + "T": [[]]})
    text = "PREFIX : <http://ex.org/> SELECT ?a FROM NAMED :S [RANGE 1 s] AS ?u WHERE { GRAPH ?u { ?a :at ?x } }"
    query = register(text, long, tmp_path / "q")
    driver = query.driver(Cut("5"), tmp_path / "state")
    most = 0
    for number, rows in enumerate(query.chunks(Cut("5"))):
        driver.batch(number, rows)
        assert all((tmp_path / "state" / f.path).exists() for f in driver.state.files)
        most = max(most, sum(1 for path in (tmp_path / "state").rglob("*") if path.is_file()))
    assert number > 20
    assert most < 40


@pytest.mark.long
def test_the_record_of_a_long_window_names_few_files(tmp_path: Path) -> None:
    """Each batch has a slot, times and terms of its own; after two hundred of them a record names as many files as after fifty."""
    elements = [Element(10 * i, ((f"<{EX}p{i}>", f"<{EX}at>", f"<{EX}x{i % 7}>"),)) for i in range(600)]
    text = "PREFIX : <http://ex.org/> SELECT ?a FROM NAMED :S [RANGE 1 h] AS ?u WHERE { GRAPH ?u { ?a :at ?x } }"
    query = register(text, World({EX + "S": [elements]}), tmp_path / "q")
    how = Cut("3", tiers=CompactionPolicy(files=4, rows=32, share=8))
    driver = query.driver(how, tmp_path / "state")
    for number, rows in enumerate(query.chunks(how)):
        driver.batch(number, rows)
        files = Counter(f.kind for f in driver.state.files if f.kind != "result")
        assert set(files) <= {"segment", "slot", "times", "terms", "pending"}
        assert all(count <= most_merged(how.tiers, 600) + how.tiers.files for count in files.values()), number
        assert files["terms"] <= most_merged(replace(how.tiers, share=PAGE_SHARE), 600) + how.tiers.files, number
    assert number == 199
    assert most_merged(how.tiers, 600) + how.tiers.files < 40


def test_a_batch_that_runs_again_and_fails_leaves_no_record_beyond_the_answers(tmp_path: Path) -> None:
    """Found by fault injection: the batch was committed, Spark had not noted it, and its second run was killed after the answers were
    cut."""
    query, chunks, state = started(tmp_path)
    fate = Fate()
    driver = query.driver(Cut("3"), state, MortalRunner(1, fate), LocalSink())
    fate.left = 0
    with pytest.raises(KilledError):
        driver.batch(2, chunks[2])
    assert CommitLog(state).newest == 1
    assert query.driver(Cut("3"), state).state.batch == 1
