"""Results in bounded chunks: the same bag with chunks of two rows, bounded memory, and a query that needs too much ends alone."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from local_runs import Cut, Registered, World, register
from random_cases import EX, make
from shared_query_cases import Run, alike

from cqels_opt.errors import LimitError
from cqels_opt.operators import accumulators, eager_aggregation, executed_operators, memory
from cqels_opt.operators.executed_operators import Chunk, Reduction, together
from cqels_opt.operators.memory import at_most, check
from cqels_opt.operators.rows import Rows, chunks, concat, gathered
from cqels_opt.runtime import evaluate as stage
from cqels_opt.runtime.evaluate_task import EvaluateReport, EvaluateTask, FinishReport
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.limits import Limits
from cqels_opt.state.spilled_results import apart
from cqels_opt.verify import Element

S = f"{EX}S"
CHUNK = "cqels_opt.operators.rows.CHUNK"


def numbered(length: int) -> Rows:
    places = np.arange(length)
    return Rows({"x": places % 7, "y": places}, places % 3, places % 3 + 1 + places % 2, 1 + places % 4)


def product(folder: Path, side: int, patterns: int, select: str = "*", rest: str = "}") -> Registered:
    """A query whose patterns share no variable."""
    elements = [Element(1000 + i, ((f"<{EX}s{i}>", f"<{EX}p{k}>", f"<{EX}x>"),)) for i in range(side) for k in range(patterns)]
    body = " . ".join(f"?v{k} :p{k} :x" for k in range(patterns))
    text = f"PREFIX : <{EX}> SELECT {select} FROM NAMED :S [RANGE 10 s] AS ?w WHERE {{ GRAPH ?w {{ {body} }} {rest}"
    return register(text, World({S: [elements]}), folder)


@pytest.mark.parametrize("seed", range(24))
def test_the_same_answers_in_chunks_of_two_rows(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random queries: filters, units, OPTIONAL, UNION, groups, all operators; with rows that become one, and in several tasks."""
    case = make(seed)
    query = register(case.query(), case.world, tmp_path, case.settings)
    parts = None if seed % 3 < 2 else 3
    how = Cut("7" if seed % 2 else "100", split=1 + seed % 3 // 2, parts=parts, commit_every=60.0 * (seed % 4 > 1))
    whole = query.run(how).answers
    monkeypatch.setattr(CHUNK, 2)
    monkeypatch.setattr(accumulators, "FEW", 0)
    if seed % 4 == 0:
        monkeypatch.setattr(eager_aggregation, "FEW", 1)
        monkeypatch.setattr(eager_aggregation, "PAYS", 1.0)
    assert query.run(how).answers == whole
    assert not list(tmp_path.rglob("*spilled*"))


@pytest.mark.parametrize(
    ("select", "rest"),
    [
        ("*", "}"),
        ("?v0 ?v2", "}"),
        ("?v0 ?z", "FILTER(?v0 != ?v1) BIND(CONCAT(STR(?v1), STR(?v2)) AS ?z) }"),
        ("?v0 (COUNT(?z) AS ?c) (SUM(STRLEN(?z)) AS ?s)", "BIND(CONCAT(STR(?v0), STR(?v1), STR(?v2)) AS ?z) } GROUP BY ?v0"),
        ("(COUNT(DISTINCT ?v1) AS ?c)", "}"),
    ],
)
def test_a_product_in_chunks(select: str, rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = product(tmp_path, 6, 3, select, rest)
    whole = query.run(Cut("9")).answers
    monkeypatch.setattr(CHUNK, 10)
    monkeypatch.setattr(accumulators, "FEW", 0)
    found = query.run(Cut("9"))
    assert found.answers == whole
    assert query.judged(whole).equal


def test_equal_rows_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = numbered(500)
    (held,) = apart([rows], ["x"], tmp_path / "a")
    assert len(held) == 500
    monkeypatch.setattr(CHUNK, 100)
    parts = list(apart(chunks(rows.take(np.arange(at, at + 50)) for at in range(0, 500, 50)), ["x"], tmp_path / "a"))
    seen = [set(part.columns["x"].tolist()) for part in parts]
    assert len(parts) > 1
    assert sum(map(len, seen)) == len(set().union(*seen)) == 7
    assert sorted(concat(parts).columns["y"].tolist()) == list(range(500))
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_memory_does_not_grow_with_the_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 times as many rows, and their chunks take the same memory."""
    monkeypatch.setattr(CHUNK, 1 << 12)

    def peak(side: int) -> int:
        """The lower of two measurements: other threads and caches of the process allocate memory, too."""
        peaks = []
        for number in range(2):
            query = product(tmp_path / f"{side}-{number}", side, 4)
            tracemalloc.start()
            answers = sum(report.answers for report in reports_of(query))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert answers == side**4
        return min(peaks)

    assert peak(16) < 3 * peak(8)


class Counting:
    """A sink that only counts."""

    format = "jsonl"

    def __init__(self) -> None:
        self.reports: list[FinishReport] = []

    digests: Mapping[str, str] = MappingProxyType({})

    def restore(self, lengths: object, digests: object) -> None:
        pass

    def put(self, batch: int, chunks: list[tuple[object, FinishReport]], folder: Path) -> dict[str, int]:
        self.reports += [report for _, report in chunks]
        return {}


def reports_of(query: Registered) -> list[FinishReport]:
    sink, how = Counting(), Cut("1000")
    driver = query.driver(how, sink=sink)
    for number, rows in enumerate(query.chunks(how)):
        driver.batch(number, rows)
    return sink.reports


# ------------------------------------------------------------------ limits of memory
def test_a_result_that_takes_too_much_is_refused_before_it_is_made() -> None:
    rows = numbered(1000)
    with at_most(1000 * 5 * 8):
        assert len(concat([rows.take(np.arange(500)), rows.take(np.arange(500, 1000))])) == 1000
    with at_most(1000 * 5 * 8 - 1), pytest.raises(LimitError, match="of at least 1,000 rows takes 40,000 bytes of memory"):
        gathered(rows.take(np.arange(at, at + 100)) for at in range(0, 1000, 100))
    check(1 << 60, 3)  # outside of a task there is no limit


def test_the_default_is_a_share_of_what_there_is() -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33));"
        "from cqels_opt.operators.memory import of_the_machine; print(of_the_machine())"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) <= 1 << 33
    with at_most(None), pytest.raises(LimitError, match=r"more than the limit of [\d,]+: join patterns by a common variable"):
        check(memory.of_the_machine() // memory.SHARE // 8, 0)


@pytest.mark.parametrize("parts", [None, 2])
def test_a_query_that_needs_too_much_memory_ends_the_run_that_has_no_other(parts: int | None, tmp_path: Path) -> None:
    query = product(tmp_path, 12, 3, "DISTINCT ?v0 ?v1 ?v2", "}")
    how = Cut("1000", parts=parts)
    driver = query.driver(how)
    driver.options = replace(driver.options, limits=Limits(memory=12**3 * 6 * 8 - 1))
    with pytest.raises(
        LimitError, match=r"rows takes [\d,]+ bytes of memory, more than the limit of 82,943: .*raise the limit of memory"
    ):
        for number, rows in enumerate(query.chunks(how)):
            driver.batch(number, rows)
    assert driver.log.last() is None


def test_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = alike(1, 2)
    some.members[:] = [replace(member, outline=None) for member in some.members]
    run = Run(some, ["m0", "m1"], Cut("4"), tmp_path, monkeypatch)
    plain = stage.keep

    def keep(task: EvaluateTask, *args: Any) -> None:
        if task.program.id == "m1":
            check(1 << 60, 1)
        plain(task, *args)

    with monkeypatch.context() as patch:
        patch.setattr(stage, "keep", keep)
        with pytest.warns(RuntimeWarning, match="m1 failed at batch ., and the others continue without it: a result of at least"):
            for number, rows in enumerate(run.source.chunks(run.how)):
                run.batch(number, rows)
    assert run.queries.names() == ["m0"]
    assert run.lines_of("m0") == run.alone("m0")


def test_no_more_answers_are_written_than_the_limit_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHUNK, 10)
    query = product(tmp_path, 6, 3)
    how = Cut("1000")
    driver = query.driver(how)
    driver.options = replace(driver.options, limits=Limits(rows=20))
    driver.quotas.limits = driver.options.limits
    with pytest.raises(LimitError, match="rows of answers in a micro-batch, more than the limit of 20"):
        for number, rows in enumerate(query.chunks(how)):
            driver.batch(number, rows)
    lines = [line for file in (driver.folder / "answers").iterdir() for line in file.read_text().splitlines()]
    assert len(lines) <= 20


def test_what_is_taken_over_is_whole_or_an_error() -> None:
    done = StageReports({"q": [EvaluateReport()]}, {"q": [FinishReport()]})
    assert done.complete() is done
    done.add([("q", FinishReport(failed="a result takes too much"))])
    with pytest.raises(LimitError, match="q: a result takes too much"):
        done.complete()


def test_small_chunks_are_looked_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and their order stay; chunks of another weight, or with another reduction, stay apart, and large ones are not copied."""
    monkeypatch.setattr(executed_operators, "ENOUGH", 10)
    reduction, other = Reduction({}, {}), Reduction({}, {})
    sizes = [
        (3, 1.0, None),
        (4, 1.0, None),
        (4, 1.0, None),
        (2, 2.0, None),
        (2, 2.0, reduction),
        (1, 2.0, other),
        (30, 2.0, other),
    ]
    given = [Chunk(numbered(size), weight, reduced) for size, weight, reduced in sizes]
    found = [*together(iter(given))]
    assert [len(chunk.rows) for chunk in found] == [7, 4, 2, 2, 1, 30]
    assert [chunk.weight for chunk in found] == [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    assert found[-1].rows.columns["y"] is given[-1].rows.columns["y"]
    rows, before = (concat([chunk.rows for chunk in some]).columns["y"].tolist() for some in (found, given))
    assert rows == before and [*together([])] == []
