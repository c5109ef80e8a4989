"""Q1–Q4 of the report over its world: verified through Spark, and plans that follow the data where it matters.

The real world combines the ACL Anthology Network's papers with contacts at conferences; the generated one drifts from
people without papers in full rooms to authors of many papers in empty rooms.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from local_runs import Cut, Registered, World, register

from cqels_opt.bench.shared_data import shared_world
from cqels_opt.bench.social import DRIFT, PLACES_GRAPH, STREAM, social
from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.query.parser import parse
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import Options, judge, read_answers, read_inputs
from cqels_opt.windows.batch_size import BatchSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = Path(__file__).resolve().parents[2] / "bench" / "report_queries"
MATTERS = 1.5


def text(name: str) -> str:
    return (QUERIES / f"{name}.rq").read_text(encoding="utf-8")


def world(stream: Path, static: Path, places: Path) -> World:
    """The content of the files, read by verify's own readers."""
    inputs = read_inputs([(STREAM, stream)], [static], [(PLACES_GRAPH, places)]).inputs
    return World({STREAM: [inputs.streams[STREAM]]}, inputs.default, inputs.graphs)


# ------------------------------------------------------------------ switches
class Counts(LocalSink):
    """Counts the lines of the answers per batch without keeping them."""

    format = "arrow"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def put(self, batch: int, chunks: Sequence[tuple[object, object]], folder: Path) -> dict[str, int]:  # type: ignore[override]
        self.made.append(sum(chunk.answers for _, chunk in chunks))  # type: ignore[attr-defined]
        return {}


def rows_made(records: Sequence[TraceRecord]) -> int:
    """The number of rows that all operators of all batches produced."""
    return sum(o.observed or 0 for r in records for d in r.deltas for o in d.operators)


def go(driver: Driver, query: Registered, how: Cut, first: int = 0, last: int | None = None) -> list[TraceRecord]:
    return [record for n, rows in list(enumerate(query.chunks(how)))[first:last] for record in driver.batch(n, rows)]


def forced(query: Registered, how: Cut, at: int, records: Sequence[TraceRecord], made: Sequence[int], folder: Path) -> float:
    """The rows of the old plans after a switch, divided by those of the new plans; the run up to the switch is repeated for both.

    Only the plans differ: each batch has the same number of answers.
    """
    before = "; ".join(f"{d.source}: {d.plan}" for d in records[at - 1].deltas)
    first, sink = query.driver(how, folder / "state", sink=Counts()), Counts()
    go(first, query, how, 0, at)
    shutil.copytree(folder / "state", folder / "forced")
    old = Cut(how.batch, f"fixed:{before}")
    kept = go(query.driver(old, folder / "forced", sink=sink), query, old, at)
    assert all(d.plan in before for r in kept for d in r.deltas)
    assert sink.made == list(made[at:])
    assert first.state.batch == at - 1
    return rows_made(kept) / rows_made(records[at:])


def check_switch(query: Registered, how: Cut, folder: Path) -> None:
    """A switch exists, and after the first one the old plan would have produced at least 1.5 times the rows."""
    sink = Counts()
    records = go(query.driver(how, sink=sink), query, how)
    place = next((r.batch for r in records if any(d.switched for d in r.deltas)), None)
    assert place is not None, "no switch"
    moved = [d for d in records[place].deltas if d.switched]
    assert all(d.reason for d in moved)
    assert forced(query, how, place, records, sink.made, folder) >= MATTERS


# ------------------------------------------------------------------ the generated world
@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> World:
    files = social(tmp_path_factory.mktemp("social"), authors=600, papers=600, places=200, elements=6000, phases=DRIFT)
    return world(files.stream, files.static, files.places)


@pytest.mark.long
@pytest.mark.parametrize("name", ["q2", "q3", "q4"])
def test_a_switch_that_matters(name: str, drifting: World, tmp_path: Path) -> None:
    check_switch(register(text(name), drifting, tmp_path / "q"), Cut("250"), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ["q1", "q2", "q3", "q4"])
def test_spark_on_the_generated_world(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Through Spark: the answers are verified, with at most two jobs per batch, or three with aggregates."""
    files = social(tmp_path, authors=60, places=8, elements=300, rate=5, phases=DRIFT)
    jobs: list[int] = []
    options = RunOptions(
        QUERIES / f"{name}.rq",
        streams=((STREAM, files.stream),),
        static=(files.static,),
        graphs=((PLACES_GRAPH, files.places),),
        batch=BatchSize(count=60),
        out=tmp_path / "out.jsonl",
    )
    in_session(spark, options, tmp_path / "state", lambda records: jobs.extend(r.jobs for r in records))
    inputs = read_inputs(options.streams, options.static, options.graphs).inputs
    verdict = judge(parse(text(name)), inputs, Options(), read_answers(tmp_path / "out.jsonl"))
    assert verdict.equal, verdict.text()
    assert verdict.rows > 100
    assert len(jobs) == 5
    assert set(jobs) == {1}  # one task runs all stages


# ------------------------------------------------------------------ the real world
@pytest.fixture(scope="module")
def conference(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    files = shared_world(shared_data, tmp_path_factory.mktemp("conference"), event="SFHH", elements=60)
    return world(files.stream, files.static, files.places)


@pytest.mark.long
@pytest.mark.needs_shared_data
@pytest.mark.parametrize("name", ["q1", "q2", "q3", "q4"])
def test_the_reports_queries_in_the_real_world(name: str, conference: World, tmp_path: Path) -> None:
    query = register(text(name), conference, tmp_path / "q")
    outcome = query.run(Cut("30"))
    assert outcome.answers
    assert query.judged(outcome.answers).equal


@pytest.mark.long
@pytest.mark.needs_shared_data
def test_a_switch_that_matters_in_the_real_world(shared_data: Path, tmp_path: Path) -> None:
    """At a workshop people stand in twos and threes, then nearly all together: the join over co-authors moves forward."""
    files = shared_world(shared_data, tmp_path, event="WS16", elements=11_250)
    whole = world(files.stream, files.static, files.places)
    query = register(text("q2"), replace(whole, streams={STREAM: [whole.streams[STREAM][0][10_000:]]}), tmp_path / "q")
    assert query.judged(query.run(Cut("250")).answers).equal
    check_switch(query, Cut("250"), tmp_path)
