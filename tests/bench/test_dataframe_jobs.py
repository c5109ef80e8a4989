"""The jobs of ``bench adaptive-join``: reproducible data, equal answers of all contenders, comparison before times, failures shown."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as parquet
import pytest

from cqels_opt.bench import adaptive_join
from cqels_opt.bench.adaptive_join import JOBS, figures, show
from cqels_opt.bench.circumstances import CpuSeconds
from cqels_opt.bench.dataframe_jobs import (
    drift,
    flights,
    memory,
    nexmark,
    real_flights,
    self_join,
    star,
    turns,
    two_streams,
)
from cqels_opt.bench.dataframe_jobs.job import Contender, Job, files_of, names_of, write_stream
from cqels_opt.bench.dataframe_jobs.turns import Measured, check, one_pass, reason
from cqels_opt.bench.flights import package_table
from cqels_opt.bench.harness import bench
from cqels_opt.bench.measure import order
from cqels_opt.cli.options import BenchOptions
from cqels_opt.errors import InputError, RunError
from cqels_opt.spark.session import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def first_departures() -> Iterator[None]:
    """The package's departures of the first weeks, of 336,776 in a year; jobs of tests take fewer."""
    read = cache(package_table)
    first = {"flights.csv.zip": 20_000}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real_flights, "package_table", lambda name: read(name).head(first.get(name, 1_000_000)).copy())
        yield


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes for tests, in place of those of ``--quick``."""
    for module, sizes in (
        (star, {"ROWS": 200, "QUICK_BATCHES": 2}),
        (flights, {"QUICK_ROWS": 300, "QUICK_BATCHES": 2}),
        (self_join, {"QUICK_ROWS": 60, "QUICK_BATCHES": 2}),
        (two_streams, {"QUICK_ROWS": 60, "QUICK_BATCHES": 2}),
        (memory, {"STATIC": 1_000, "ROWS": 2_000, "CHUNK": 60}),
        (nexmark, {"QUICK_ROWS": 500, "QUICK_BATCHES": 2, "RATE": 100}),
        (drift, {"QUICK": drift.Size(famous=3, fanout=20, ordinary=40, batches=1, views=30, matching=0.5)}),
    ):
        for name, value in sizes.items():
            monkeypatch.setattr(module, name, value)


# ------------------------------------------------------------------ data
def tables_below(folder: Path) -> dict[str, Any]:
    return {str(path.relative_to(folder)): parquet.read_table(path) for path in sorted(folder.rglob("*.parquet"))}


@pytest.mark.long
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", JOBS)
def test_the_same_data_every_time(name: str, tmp_path: Path) -> None:
    job = JOBS[name]
    assert job.make(tmp_path / "one", True, None) == job.make(tmp_path / "two", True, None)
    one, two = (tables_below(tmp_path / folder) for folder in ("one", "two"))
    assert one == two
    files = files_of(tmp_path / "one" / job.stream)
    assert len(files) > 1
    assert [path.stat().st_mtime for path in files] == [*range(len(files))]  # Spark reads them in the order of their times


@pytest.mark.parametrize("name", JOBS)
def test_a_job_goes_to_a_process_of_its_own(name: str) -> None:
    assert pickle.loads(pickle.dumps(JOBS[name])).name == name


def test_generated_flights_have_the_shape_of_the_real_ones() -> None:
    rows, airports = flights.generated(50_000)
    assert {*rows} == {"date", "delay", "distance", "origin", "destination"}
    assert len(airports) == airports["iata"].nunique() == 3_376
    assert rows["origin"].nunique() == rows["destination"].nunique() == 229
    assert {*rows["origin"], *rows["destination"]} <= {*airports["iata"]}
    assert set(rows["date"].str.len()) == {8} and rows["date"].is_monotonic_increasing


def test_flights_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"--data: .* has no flights-3m.parquet: .*npm pack vega-datasets"):
        flights.read(tmp_path)
    rows, airports = flights.generated(40)
    rows.to_parquet(tmp_path / "flights-3m.parquet")
    airports.to_csv(tmp_path / "airports.csv", index=False)
    monkeypatch.setattr(flights, "QUICK_ROWS", 20)
    assert flights.make(tmp_path / "made", True, tmp_path).startswith("vega-datasets, ")
    assert len(parquet.read_table(tmp_path / "made" / "stream" / "0001.parquet")) == 20


def test_a_title_says_that_flights_are_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "QUICK_ROWS", 20)
    assert "generated data (seed 23)" in flights.make(tmp_path, True, None)


def test_the_rows_of_two_streams_are_in_order() -> None:
    rows = two_streams.both()
    assert rows["t"].is_monotonic_increasing
    assert set(rows["kind"]) == {"flight", "weather"}
    instant = rows[rows["t"] == rows["t"][rows["kind"] == "weather"].iloc[10]]
    assert [*instant["kind"]] == sorted(instant["kind"], reverse=True)  # weather before the flights of its instant


def test_the_static_rows_are_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "STATIC", 100)
    monkeypatch.setattr(memory, "ROWS", 100)
    memory.make(tmp_path, True, None)
    assert {len(text) for text in pd.read_parquet(tmp_path / "pages")["text"]} == {1_300}


def test_names_of_columns() -> None:
    assert names_of(("a.x AS y", "offers.item AS item")) == ("y", "item")


# ------------------------------------------------------------------ turns and answers
def test_each_micro_batch_has_the_order_of_its_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(turns, "cpu_when_idle", lambda: CpuSeconds(0, 0, 0))
    began: list[str] = []
    monkeypatch.setattr(turns.Turns, "_turn", lambda self, name, frame, number, used: began.append(name) or used)
    run: Any = turns.Turns(dict.fromkeys("abc"), {}, {}, 4, tmp_path, shown=False)  # type: ignore[arg-type]
    for number in range(4):
        run(None, number)
    assert began == [name for number in range(4) for name in order("abc", number)]


def test_other_answers_are_an_error() -> None:
    same = {"adaptive": Measured(digests=[(3, 7)]), "plain": Measured(digests=[(3, 7)]), "failed": Measured(failure="why")}
    check(same, 0)
    with pytest.raises(RunError, match="plain gives other answers than adaptive in micro-batch 0: 4 rows, not 3"):
        check(same | {"plain": Measured(digests=[(4, 7)])}, 0)
    with pytest.raises(RunError, match="micro-batch 0: 3 rows with other values"):
        check(same | {"plain": Measured(digests=[(3, 8)])}, 0)


def test_the_reason_of_a_failure_names_memory() -> None:
    error = ValueError("Job aborted.\n\n  at x: OutOfMemory: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes\n at y")
    assert reason(error) == "ValueError: Job aborted. … [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes"
    assert reason(ValueError()) == "ValueError: "


@pytest.fixture
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The shared session; tables and views of jobs are removed at the end."""
    monkeypatch.setattr(turns, "INTERVAL", 0.0)
    before = {table.name for table in spark.catalog.listTables()}
    yield spark
    for table in spark.catalog.listTables():
        if table.name not in before and table.isTemporary:
            spark.catalog.dropTempView(table.name)
        elif table.name not in before:
            spark.sql(f"DROP TABLE {table.name}")


def pairs_within_six_hours() -> int:
    """The number of answers of the self-join, by definition."""
    rows = self_join.departures().head(2 * 60)
    keys = {"planes.csv": "tailnum", "airports.csv": "faa", "airlines.csv": "carrier"}
    planes, airports, airlines = ({*package_table(name)[key]} for name, key in keys.items())
    found = rows.merge(rows, on="dest", suffixes=("", "_b"))
    found = found[(found["carrier"] < found["carrier_b"]) & ((found["t"] - found["t_b"]).abs() < pd.Timedelta(hours=6))]
    return len(found[found["tailnum"].isin(planes) & found["dest"].isin(airports) & found["carrier_b"].isin(airlines)])


@pytest.mark.long
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", [name for name in JOBS if name == "nexmark-q9" or not name.startswith("nexmark")])
def test_all_contenders_give_the_same_answers(name: str, session: SparkSession, tmp_path: Path) -> None:
    job = JOBS[name]
    job.make(tmp_path / "data", True, None)
    with settings(session, job.settings):
        measured = one_pass(session, job, True, tmp_path, "data", [*job.contenders])
    assert [one.failure for one in measured.values()] == [None] * len(job.contenders)
    digests = {tuple(one.digests) for one in measured.values()}
    assert len(digests) == 1
    rows = [rows for rows, _ in digests.pop()]
    assert len(rows) == len(files_of(tmp_path / "data" / job.stream))
    if name == "self-join":
        assert sum(rows) == pairs_within_six_hours()
    assert sum(rows) > 10


@pytest.mark.long
def test_a_contender_that_fails_does_not_stop_the_others(session: SparkSession, tmp_path: Path) -> None:
    write_stream(tmp_path / "data" / "stream", pd.DataFrame({"x": range(9)}), 3, 3)

    def count(case: Any) -> Any:
        return lambda frame, number: case.sink(frame, number)

    def fail(case: Any) -> Any:
        def batch(frame: Any, number: int) -> None:
            case.sink(frame, number)
            if number == 1:
                raise MemoryError("no memory")

        return batch

    job = Job("j", "J", lambda *_: "", lambda *_: {}, {"good": Contender(count), "bad": Contender(fail)}, ("x",), base="good")
    measured = one_pass(session, job, True, tmp_path, "data", ["good", "bad"])
    assert measured["bad"].failure == "micro-batch 1: MemoryError: no memory"
    assert [len(one.digests) for one in measured.values()] == [3, 1]
    assert not (tmp_path / turns.RUNNING).exists()


class Ended:
    """A process that has ended."""

    def __init__(self, exitcode: int) -> None:
        self.exitcode = exitcode

    def join(self, limit: float) -> None:
        """Returns at once."""

    def is_alive(self) -> bool:
        return False


def test_a_contender_that_ends_the_jvm_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def start(run: object, job: Job, quick: bool, folder: Path, names: list[str]) -> Ended:
        if "adaptive" in names:
            (folder / turns.RUNNING).write_text("adaptive")
            return Ended(1)
        (folder / turns.FOUND).write_bytes(pickle.dumps({name: measured_as([1.0, 2.0]) for name in names}))
        return Ended(0)

    monkeypatch.setattr(turns.apart, "start", start)
    measured = turns.measure(JOBS["memory"], False, tmp_path)
    assert measured["adaptive"].failure == "its process ended (exit code 1)"
    assert measured["plain"].failure is None


class Alternating:
    """A process of two contenders whose turns take 10 seconds each; ``b`` never ends its third."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds, self.exitcode = folder, 0.0, None

    def join(self, limit: float) -> None:
        """Waits on a clock that does not run by itself."""
        self.seconds += limit
        turn = min(int(self.seconds / 10), 5)
        (self.folder / turns.RUNNING).write_text("ab"[turn % 2])

    def is_alive(self) -> bool:
        return self.exitcode is None


def test_the_limit_is_that_of_a_contender_and_not_of_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    process: Any = Alternating(tmp_path)
    monkeypatch.setattr(turns, "perf_counter", lambda: process.seconds)
    monkeypatch.setattr(turns.apart, "kill", lambda killed: setattr(killed, "exitcode", -9))
    assert turns._ended(process, tmp_path, 35) == ("b", "no end after 35 s")
    assert 64 <= process.seconds <= 67  # 30 s of a, and more than 35 s of b


def test_a_process_that_hangs_between_turns_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    process: Any = Alternating(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(turns, "perf_counter", lambda: process.seconds)
    monkeypatch.setattr(turns.apart, "start", lambda *_: process)
    monkeypatch.setattr(turns.apart, "kill", lambda killed: setattr(killed, "exitcode", -9))
    with pytest.raises(RunError, match="memory: a run in a process of its own failed"):
        turns.measure(JOBS["memory"], False, tmp_path)


def test_a_process_that_ends_between_turns_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(turns.apart, "start", lambda *_: Ended(1))
    with pytest.raises(RunError, match="memory: a run in a process of its own failed"):
        turns.measure(JOBS["memory"], False, tmp_path)


# ------------------------------------------------------------------ the report
def measured_as(milliseconds: list[float], failure: str | None = None) -> Measured:
    count = len(milliseconds)
    return Measured(milliseconds, [CpuSeconds(0.25, 1.0, 0.5)] * count, [(5, 1)] * count, failure=failure)


def test_ratios_are_relative_to_the_base() -> None:
    found = figures(JOBS["star"], "data", False, {"adaptive": measured_as([30, 9, 4, 6]), "plain": measured_as([10, 9, 2, 8])})
    adaptive, plain = found["results"]
    assert adaptive["milliseconds"] == {"first": 30, "median": 5, "total": 10, "least": 4, "most": 6, "batches": 2}
    assert adaptive["cpu_seconds"] == {"first": 1.75, "total": 3.5, "driver": 0.5, "jvm": 2.0, "workers": 1.0}
    assert adaptive["over"] == {"first": 3.0, "median": 1.0, "total": 1.0, "cpu": 1.0}
    assert plain["over"] == dict.fromkeys(("first", "median", "total", "cpu"), 1.0)
    assert found["answers"] == [5] * 4


def test_phases_have_medians_of_their_own() -> None:
    names = JOBS["drift"].contenders
    found = figures(JOBS["drift"], "data", True, {name: measured_as([9, 1, 2, 3]) for name in names})  # one batch per phase
    assert found["phases"] == ["viewers", "items"]
    assert found["results"][0]["phases"] == [2, 2]


@pytest.mark.parametrize("failed", ["adaptive", "plain"])
def test_a_failure_is_shown(failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    measured = {
        name: measured_as([7.0] if name == failed else [7.0, 8.0], "micro-batch 1: no memory" if name == failed else None)
        for name in ("adaptive", "plain")
    }
    found = figures(JOBS["memory"], "data", False, measured)
    assert json.loads(json.dumps(found)) == found
    assert not any(one["verified"] for one in found["results"])  # there is nothing to compare with
    show({"jobs": [found]})
    shown = capsys.readouterr().out
    assert f"{failed} failed: micro-batch 1: no memory" in shown
    assert "not compared, 10 rows" in shown


# ------------------------------------------------------------------ options
def test_jobs_and_data_reach_the_study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(adaptive_join, "study", lambda quick, jobs, data: calls.append((quick, jobs, data)) or {"jobs": []})
    bench(BenchOptions(("adaptive-join",), quick=True, jobs=("star", "memory"), data=tmp_path))
    assert calls == [(True, ("star", "memory"), tmp_path)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (BenchOptions(("adaptive-join",), jobs=("stars",)), "--job: there is no job 'stars'"),
        (BenchOptions(("drift",), jobs=("star",)), "--job: only adaptive-join has jobs"),
        (BenchOptions(("drift",), data=Path()), "--data: only adaptive-join has jobs"),
    ],
)
def test_wrong_options(options: BenchOptions, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        bench(options)
