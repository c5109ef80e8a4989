"""Engines that read typed rows: the messages that they get, the exchange with a process, and what is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench_tasks import task as bench_task

from cqels_opt.bench import arena
from cqels_opt.bench.contenders import Contender, Task, UnsupportedError, built_in, find
from cqels_opt.bench.contenders.triples import CQELS, CSPARQL, KOLIBRIE, YASPER
from cqels_opt.bench.contenders.typed_rows import (
    _SESSIONS,
    DIFFERENTIAL,
    ESPER,
    FLINK,
    PATHWAY,
    Engine,
    Session,
    close_sessions,
    run,
)
from cqels_opt.bench.declared import read
from cqels_opt.bench.measure import check, in_turns
from cqels_opt.errors import InputError, RunError
from cqels_opt.verify import Element
from cqels_opt.windows.batch_size import BatchSize

ENGINES = (FLINK, ESPER, PATHWAY, DIFFERENTIAL, CQELS, CSPARQL, YASPER, KOLIBRIE)
Q = "http://x/"
QUERY = f"SELECT ?a ?name FROM NAMED <{Q}s> [NOW] AS ?w {{ GRAPH ?w {{ ?a <{Q}is> ?b }} ?b <{Q}name> ?name }}"
SCHEMA = f"""
CREATE TABLE named AS SELECT s AS id, o AS name FROM triples WHERE p = '<{Q}name>';
CREATE TABLE seen(a VARCHAR, b VARCHAR, t BIGINT);
CREATE TABLE now_seen(a VARCHAR, b VARCHAR, t BIGINT)
"""
INGEST = "DELETE FROM now_seen; INSERT INTO now_seen SELECT s, o, t FROM now_elements; INSERT INTO seen SELECT * FROM now_seen"
ENGINE = r"""
import sys
import threading

named = {}
for line in sys.stdin:
    word, *values = line.rstrip("\n").split("\t")
    if word == "#start":
        mode = open(values[0]).read().strip()
        print("#ready\ttime\ta\tname", flush=True)
    elif word == "#stop":
        print("an answer that is too late", "#stopped", sep="\n", flush=True)
    elif word == "#end":
        if mode == "hangs" and values[0] == "1":
            threading.Event().wait()
        print(f"#done\t{values[0]}", flush=True)
    elif word == "named":
        named[values[0]] = values[1]
    elif word == "seen":
        if mode == "dies":
            sys.exit("out of luck")
        if mode in ("right", "hangs") and values[1] in named:
            print(values[2], values[0], named[values[1]], sep="\t")
        if mode == "wrong":
            print(values[2], values[0], '"other"', sep="\t")
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """Three elements in two micro-batches; two of them are about a thing that has a name."""
    stream = [
        Element(t, ((f"<{Q}{a}>", f"<{Q}is>", f"<{Q}{b}>"),)) for t, a, b in ((100, "1", "x"), (600, "2", "y"), (1100, "3", "x"))
    ]
    made = bench_task(
        tmp_path / "task", QUERY, {f"{Q}s": stream}, [(f"<{Q}x>", f"<{Q}name>", '"An \\"x\\""@en')], BatchSize(duration=1000)
    )
    folder = tmp_path / "sql"
    (folder / "fake").mkdir(parents=True)
    (folder / "schema.sql").write_text(SCHEMA, encoding="utf-8")
    (folder / "ingest.sql").write_text(INGEST, encoding="utf-8")
    return replace(made, query="Q", sql=folder)


@pytest.fixture
def fake(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine of two dictionaries that is installed; the file of its query says what it does."""
    monkeypatch.setenv("CQELS_OPT_RIVALS", str(tmp_path / "rivals"))
    place = tmp_path / "rivals" / "fake"
    place.mkdir(parents=True)
    (place / "version").write_text("Fake 1.0\n", encoding="utf-8")
    (place / "engine.py").write_text(ENGINE, encoding="utf-8")

    def command(installed: Path, scratch: Path) -> Sequence[str]:
        return [sys.executable, str(installed / "engine.py")]

    yield Engine("fake", "q", command)
    close_sessions()


def test_messages_have_static_rows_first_then_each_batch_in_the_order_of_times(task: Task, fake: Engine) -> None:
    session = Session(fake, task)
    opening, batches, again = session.opening(), session.batches(task), session.batches(task)
    session.close()
    assert opening.splitlines() == [
        "#table\tnamed\tstatic\tid text\tname text",
        "#table\tseen\tstream\ta text\tb text\tt integer",
        f'named\t<{Q}x>\t"An \\"x\\""@en',
    ]
    assert (
        batches
        == again
        == [
            f"seen\t<{Q}1>\t<{Q}x>\t100\nseen\t<{Q}2>\t<{Q}y>\t600\n#end\t0\t1099\n",
            f"seen\t<{Q}3>\t<{Q}x>\t1100\n#end\t1\t1100\n",
        ]
    )


def test_an_engine_gives_the_answers_of_the_independent_evaluation(task: Task, fake: Engine, tmp_path: Path) -> None:
    assert task.sql is not None
    (task.sql / "fake" / "q.q").write_text("right", encoding="utf-8")
    contenders = [*find(("pyoxigraph",)), Contender("fake", "two dictionaries", lambda t, f: run(t, f, fake))]
    runs = in_turns(contenders, task, tmp_path / "runs", 100)
    assert [one.why for one in runs] == [None, None]
    check("Q", runs)
    assert [one.bag.counts for one in runs] == [{100: 1, 1100: 1}] * 2


def test_other_answers_and_an_engine_that_ends_are_found(task: Task, fake: Engine, tmp_path: Path) -> None:
    assert task.sql is not None
    query = task.sql / "fake" / "q.q"
    query.write_text("wrong", encoding="utf-8")
    contenders = [*find(("pyoxigraph",)), Contender("fake", "two dictionaries", lambda t, f: run(t, f, fake))]
    with pytest.raises(RunError, match="fake gives other answers than pyoxigraph: at 100: 1 answers, and 1 others"):
        check("Q", in_turns(contenders, task, tmp_path / "runs", 100))
    query.write_text("dies", encoding="utf-8")
    _, died = in_turns(contenders, task, tmp_path / "runs", 100)
    assert died.why is not None and "the engine fake: ended (exit code 1); it says: out of luck" in died.why


def test_an_engine_that_never_ends_a_micro_batch_is_killed(task: Task, fake: Engine, tmp_path: Path) -> None:
    assert task.sql is not None
    (task.sql / "fake" / "q.q").write_text("hangs", encoding="utf-8")
    limited = replace(task, limit=2.0)
    (stopped,) = in_turns([Contender("fake", "two dictionaries", lambda t, f: run(t, f, fake))], limited, tmp_path / "runs", 100)
    assert (stopped.why, stopped.upto) == ("stopped within micro-batch 2 of 2: over 2 s", 1099)
    assert stopped.bag.counts == {100: 1} and not _SESSIONS


def test_one_process_runs_the_queries_over_the_same_static_data(task: Task, fake: Engine, tmp_path: Path) -> None:
    assert task.sql is not None
    (task.sql / "fake" / "q.q").write_text("right", encoding="utf-8")
    processes = []
    for number in range(3):
        if number == 2:
            task = replace(task, store=tmp_path / "other")
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        found = [list(done.answers) for done in run(task, folder, fake) if done is not None]
        assert found == [[(100, {"a": f"{Q}1", "name": 'An "x"'})], [(1100, {"a": f"{Q}3", "name": 'An "x"'})]]
        processes.append(_SESSIONS["fake"].talk.process)
    assert processes[0] is processes[1]
    assert processes[2] is not processes[0] and processes[0].poll() == 0


def test_a_query_that_is_stopped_early_leaves_the_process_to_the_next_one(task: Task, fake: Engine, tmp_path: Path) -> None:
    assert task.sql is not None
    (task.sql / "fake" / "q.q").write_text("right", encoding="utf-8")
    stopped = run(task, tmp_path, fake)
    next(stopped)
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    process = _SESSIONS["fake"].talk.process
    assert [len(list(done.answers)) for done in run(task, tmp_path, fake) if done is not None] == [1, 1]
    assert _SESSIONS["fake"].talk.process is process


def test_a_query_that_an_engine_does_not_have_is_refused(task: Task, fake: Engine, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"there is no q\.q for fake"):
        next(run(task, tmp_path, fake))
    with pytest.raises(UnsupportedError, match="the scenario has no folder of SQL"):
        next(run(replace(task, sql=None), tmp_path, fake))
    assert task.sql is not None
    (task.sql / "fake" / "q.txt").write_text("it has no joins\n", encoding="utf-8")
    (task.sql / "fake" / "others.txt").write_text("it has no windows\n", encoding="utf-8")
    with pytest.raises(UnsupportedError, match=r"^it has no joins$"):
        next(run(task, tmp_path, fake))
    with pytest.raises(UnsupportedError, match=r"^it has no windows$"):
        next(run(replace(task, query="other"), tmp_path, fake))


def test_a_rival_that_is_not_installed_is_left_out_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, task: Task
) -> None:
    monkeypatch.setenv("CQELS_OPT_RIVALS", str(tmp_path))
    assert not any(engine.version() for engine in ENGINES)
    with pytest.raises(InputError, match="flink is not installed: make arena-rivals RIVAL=flink"):
        next(run(task, tmp_path, FLINK))
    with pytest.raises(InputError, match="--rival: esper is not installed: make arena-rivals RIVAL=esper"):
        arena.study(True, ("nexmark",), ("esper",))
    assert [name for name, one in built_in().items() if not arena.is_installed(one)] == [engine.name for engine in ENGINES]
    (tmp_path / "esper").mkdir()
    (tmp_path / "esper" / "version").write_text("Esper 8.9.0\n", encoding="utf-8")
    assert arena.with_version(built_in()["esper"]).endswith("; Esper 8.9.0")


def test_every_engine_of_a_workload_has_its_queries() -> None:
    engines = {engine.name: engine for engine in ENGINES}
    found = 0
    for name, file in arena.WORKLOADS.items():
        scenario = read(file)
        assert scenario.sql is not None, name
        for engine in (engines[one] for one in scenario.contenders if one in engines):
            for query in scenario.queries:
                file = scenario.sql / engine.name / f"{query.lower()}.{engine.suffix}"
                reason, reasons = file.with_suffix(".txt").is_file(), file.with_name("others.txt").is_file()
                assert not reason if file.is_file() else reason or reasons, f"{file}: the query, or why there is none"
                found += file.is_file()
    assert found >= 70
