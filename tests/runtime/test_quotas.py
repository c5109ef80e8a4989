"""Limits of queries: one that takes too much is over, with none of that batch's answers, and the others have what they have alone."""

from __future__ import annotations

import contextlib
import json
import random
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_runs import Cut
from shared_query_cases import Alike, Run, alike

from cqels_opt.errors import CheckpointError, LimitError
from cqels_opt.operators.answer_files import rows_by_query, without_queries
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.runtime.batch_commits import BatchCommits
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.limits import NO_LIMITS, Limits
from cqels_opt.runtime.quotas import NOTES, Quotas, ResourceUsage
from cqels_opt.storage import checksum
from cqels_opt.storage.columns import read_table, write_table


class Limited(Run):
    """A run with limits."""

    limits = NO_LIMITS

    def opened(self) -> Driver:
        made = super().opened()
        options = replace(made.options, limits=self.limits)
        return Driver(made.folder, made.catalog.programs(), made.runner, self.sink, made.frontier, options, catalog=made.catalog)


def answers_by_batch(some: Alike, folder: Path, patch: pytest.MonkeyPatch) -> list[Counter[str]]:
    """How many answers each query has in each batch without limits."""
    run = Run(some, [m.id for m in some.members], Cut("4"), folder, patch)
    found, before = [], Counter[str]()
    for number, rows in enumerate(run.source.chunks(run.how)):
        run.batch(number, rows)
        now = Counter({name: sum(run.lines_of(name).values()) for name in run.span})
        found.append(now - before)
        before = now
    return found


World = tuple[Alike, list[Counter[str]]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Random queries that differ in constants, whose answers differ in number in some batch that is not the last."""
    for seed in range(14, 200):  # those before have no such batch
        some = alike(seed, 4)
        with pytest.MonkeyPatch.context() as patch:
            batches = answers_by_batch(some, tmp_path_factory.mktemp(str(seed)), patch)
        most = {m.id: max((b[m.id] for b in batches), default=0) for m in some.members}
        if (
            len(set(most.values())) > 2
            and batches.index(max(batches, key=lambda b: max(b.values(), default=0))) < len(batches) - 1
        ):
            return some, batches
    raise AssertionError("no world has queries of different size")


@pytest.mark.parametrize("killed", [None, "before the commit", "after it", "in the next batch"])
@pytest.mark.parametrize("apart", [False, True], ids=["one plan", "a plan each"])
def test_a_query_with_too_many_rows_goes(
    apart: bool, killed: str | None, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its batch it has its answers, then none, also where the process is killed; the others have theirs all along."""
    some, batches = world
    if apart:
        some = replace(some, members=[replace(member, outline=None) for member in some.members])
    largest = {m.id: max(batch[m.id] for batch in batches) for m in some.members}
    most = sorted(set(largest.values()))[-2]
    over = {
        name: next(i for i, batch in enumerate(batches) if batch[name] > most) for name, rows in largest.items() if rows > most
    }
    Limited.limits = Limits(rows=most)
    run = Limited(some, [m.id for m in some.members], Cut("4"), tmp_path / "run", monkeypatch)
    first = min(over.values())
    with pytest.warns(RuntimeWarning, match=f"failed at batch {first}, and the others continue without it: .* rows of answers"):
        for number, rows in enumerate(run.source.chunks(run.how)):
            if killed == "before the commit" and number == first:
                with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                    patch.setattr(BatchCommits, "commit", _interrupted)
                    run.batch(number, rows)
            if (killed == "before the commit" and number == first) or (killed == "after it" and number == first + 1):
                run.driver = run.opened()
            if killed == "in the next batch" and number == first + 1:
                with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                    patch.setattr(BatchCommits, "commit", _interrupted)
                    run.batch(number, rows)
                run.driver = run.opened()
            run.batch(number, rows)
    assert {name: batch for name, (batch, _) in run.driver.quotas.failures.items()} == over
    assert {m.id for m in some.members} - set(run.queries.names()) == set(over)
    for name in run.span:
        alone = run.alone(name)
        if name not in over:
            assert run.lines_of(name) == alone, name
        else:
            assert sum(run.lines_of(name).values()) == sum(batch[name] for batch in batches[: over[name]])
            assert run.lines_of(name) <= alone


@pytest.mark.parametrize("apart", [False, True], ids=["one plan", "a plan each"])
def test_the_trace_has_why_a_query_has_failed(apart: bool, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the record of that batch and of that query alone, also if the batch runs again."""
    some, batches = world
    if apart:
        some = replace(some, members=[replace(member, outline=None) for member in some.members])
    most = max(max(batch.values(), default=0) for batch in batches) - 1
    Limited.limits = Limits(rows=most)
    run = Limited(some, [m.id for m in some.members], Cut("4"), tmp_path / "run", monkeypatch)
    records = []
    with pytest.warns(RuntimeWarning, match="failed at batch"):
        for number, rows in enumerate(run.source.chunks(run.how)):
            if any(rows_of_query > most for rows_of_query in batches[number].values()):
                with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                    patch.setattr(BatchCommits, "commit", _interrupted)
                    run.batch(number, rows)
                run.driver = run.opened()
            records += run.driver.batch(number, rows)
    failures = run.driver.quotas.failures
    found = {(record.batch, record.query): record.failed for record in records if record.failed is not None}
    if apart:
        assert found == {(batch, name): why for name, (batch, why) in failures.items()}
    else:
        assert {batch for batch, _ in found} == {batch for batch, _ in failures.values()}
        assert all(any(text.startswith(f"{name}: {why}") for name, (_, why) in failures.items()) for text in found.values())


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(bytes=1), "bytes of state"),
        (Limits(seconds=1e-9), "a micro-batch took"),
        (Limits(bound=1), r"an operator may give up to \d+ rows"),
    ],
)
def test_where_all_fail_the_run_is_over_and_nothing_is_committed(
    limits: Limits, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Limited.limits = limits
    run = Limited(alike(0, 2), ["m0", "m1"], Cut("4"), tmp_path, monkeypatch)
    chunks = run.source.chunks(run.how)
    with pytest.raises(LimitError, match=f"m0: .*{why}.*; m1: .*{why}"):
        for number, rows in enumerate(chunks):
            run.batch(number, rows)
    committed = run.driver.log.last()
    assert run.driver.quotas.failures == {} and not (tmp_path / "state" / NOTES).exists()
    Limited.limits = NO_LIMITS  # another limit, and the run continues over the same checkpoint
    run.driver = run.opened()
    for number, rows in enumerate(chunks):
        if committed is None or number > committed.batch:
            run.batch(number, rows)
    for name in run.span:
        assert run.lines_of(name) == run.alone(name)


@pytest.mark.parametrize("seed", range(4))
def test_a_query_whose_bound_exceeds_the_limit_does_not_run(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before any row of its batch is joined; no operator of a query that runs gives more rows than the limit."""
    some = alike(seed, 4)
    some.members[:] = [replace(member, outline=None) for member in some.members]
    given: dict[str, list[int]] = {member.id: [] for member in some.members}
    refused: dict[str, int] = {}
    within = Quotas.within

    def noted(quotas: Quotas, batch: int, programs: Any, taken: ResourceUsage, *rest: Any) -> None:
        for name, (report,) in taken.shares.items() if quotas.limits.bound else ():
            rows = [count for observed in report.observed.values() for counts in observed.operators.values() for count in counts]
            given[name].append(max(rows, default=0))
            if report.failed:
                refused[name] = batch
                assert not rows and "the micro-batch gives no answers" in report.failed
        within(quotas, batch, programs, taken, *rest)

    monkeypatch.setattr(Quotas, "within", noted)
    Limited.limits = Limits(bound=3)
    run = Limited(some, [m.id for m in some.members], Cut("4"), tmp_path, monkeypatch)
    with warnings.catch_warnings(), contextlib.suppress(LimitError):
        warnings.simplefilter("ignore", RuntimeWarning)
        for number, rows in enumerate(run.source.chunks(run.how)):
            run.batch(number, rows)
    assert refused
    assert max(rows for found in given.values() for rows in found) <= 3
    assert all(run.lines_of(name) == run.alone(name) for name in run.queries.names())


def test_one_with_a_great_bound_goes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = alike(0, 2)
    some.members[:] = [replace(member, outline=None) for member in some.members]
    monkeypatch.setattr(QueryPlanner, "greatest_bound", lambda self: 2_000 if self.program.id == "m1" else 10)
    Limited.limits = Limits(bound=1_000)
    run = Limited(some, ["m0", "m1"], Cut("4"), tmp_path, monkeypatch)
    with pytest.warns(RuntimeWarning, match="m1 failed at batch .*: an operator may give up to 2,000 rows"):
        for number, rows in enumerate(run.source.chunks(run.how)):
            run.batch(number, rows)
    assert run.queries.names() == ["m0"] and run.lines_of("m0") == run.alone("m0")


def test_one_with_too_much_state_goes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are of what the query's own windows and results take."""
    some = alike(0, 2)
    some.members[:] = [replace(member, outline=None) for member in some.members]
    Limited.limits = Limits(bytes=1_000)
    monkeypatch.setattr(ResourceUsage, "bytes", lambda self, program: 2_000 if program.id == "m1" else 10)
    run = Limited(some, ["m0", "m1"], Cut("4"), tmp_path, monkeypatch)
    with pytest.warns(RuntimeWarning, match="m1 failed at batch 0, .*: 2,000 bytes of state, more than the limit of 1,000"):
        for number, rows in enumerate(run.source.chunks(run.how)):
            run.batch(number, rows)
    assert run.queries.names() == ["m0"]
    assert run.lines_of("m0") == run.alone("m0")


def test_bytes_are_those_of_the_files_of_its_windows_and_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(alike(1, 2), ["m0", "m1"], Cut("4"), tmp_path, monkeypatch)
    for number, rows in enumerate(run.source.chunks(run.how)[:2]):
        run.batch(number, rows)
    driver = run.driver
    taken = ResourceUsage({}, {}, driver.state.files, driver.folder)
    files = [f for f in driver.state.files if f.kind not in ("terms", "pending")]
    assert taken.bytes(driver.programs[0]) == sum((driver.folder / f.path).stat().st_size for f in files) > 0
    other = replace(driver.programs[0], id="other", blocks=(), windows=())
    assert taken.bytes(other) == 0


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_answers_of_some_queries_are_taken_out_of_a_file(format: str, tmp_path: Path) -> None:
    names = random.Random(1).choices(["a", "b", "c"], k=50)
    column = "query" if format == "arrow" else "instance"
    table = pa.table({"time": range(50), column: names})
    path = tmp_path / f"answers.{format}"
    (write_table if format == "arrow" else lambda at, rows: pq.write_table(rows, at))(path, table)
    path = path if format == "arrow" else checksum.name_after_content(path)
    assert rows_by_query([path, path], format) == Counter(names + names)
    path, left, _ = without_queries(path, format, {"a", "c"})
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    there = read_table(path) if format == "arrow" else pq.read_table(path)
    assert there.column(column).to_pylist() == ["b"] * names.count("b") and left == names.count("b")


def test_damaged_notes(tmp_path: Path) -> None:
    (tmp_path / NOTES).write_text(json.dumps({"m0": 3}))
    with pytest.raises(CheckpointError, match=r"failed\.json: the checkpoint is damaged"):
        Quotas(NO_LIMITS, tmp_path, None)
