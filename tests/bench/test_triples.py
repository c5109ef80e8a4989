"""Engines of RDF streams: the messages that they get, hidden columns, and the clock of CQELS."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench_tasks import task as bench_task

from cqels_opt.bench.contenders import Contender, Done, Task
from cqels_opt.bench.contenders.triples import TripleSession, set_clock
from cqels_opt.bench.contenders.typed_rows import Engine, close_sessions, run
from cqels_opt.bench.measure import in_turns
from cqels_opt.errors import InputError
from cqels_opt.verify import Element
from cqels_opt.windows.batch_size import BatchSize

Q = "http://x/"
QUERY = f"SELECT ?a ?b FROM NAMED <{Q}s> [NOW] AS ?w {{ GRAPH ?w {{ ?a <{Q}is> ?b }} }}"
ENGINE = r"""
import sys

for line in sys.stdin:
    word, *values = line.rstrip("\n").split("\t")
    if word == "#start":
        print("#ready\ttime\ta\t_hidden\tb", flush=True)
    elif word == "#stop":
        print("#stopped", flush=True)
    elif word == "#end":
        print(f"#done\t{values[0]}", flush=True)
    elif word == "triples":
        stream, g, s, p, o, t = values
        print(t, s, "x", o, sep="\t")
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """Four triples of three elements, in two micro-batches."""
    stream = [
        Element(100, ((f"<{Q}1>", f"<{Q}is>", '"x"@en'), (f"<{Q}1>", f"<{Q}in>", f"<{Q}y>")), f"<{Q}g>"),
        Element(200, ((f"<{Q}1>", f"<{Q}is>", f"<{Q}y>"),)),
        Element(1100, ((f"<{Q}2>", f"<{Q}is>", f"<{Q}z>"),)),
    ]
    made = bench_task(tmp_path / "task", QUERY, {f"{Q}s": stream}, [], BatchSize(duration=1000))
    sql = tmp_path / "sql"
    (sql / "fake").mkdir(parents=True)
    (sql / "fake" / "q.rspql").write_text("", encoding="utf-8")
    return replace(made, sql=sql, graphs={f"{Q}graph": tmp_path / "graph.nt"})


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine that is installed, and answers each triple."""
    monkeypatch.setenv("CQELS_OPT_RIVALS", str(tmp_path))
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "version").write_text("Fake 1.0", encoding="utf-8")
    (tmp_path / "fake" / "engine.py").write_text(ENGINE, encoding="utf-8")

    def command(installed: Path, shared: Path) -> Sequence[str]:
        return [sys.executable, str(installed / "engine.py")]

    yield Engine("fake", "rspql", command, TripleSession)
    close_sessions()


def test_triples_of_all_streams_are_one_table_and_static_data_are_files(task: Task, fake: Engine, tmp_path: Path) -> None:
    session = TripleSession(fake, task)
    opening, batches = session.opening(), session.batches(task)
    session.close()
    assert opening.splitlines() == [
        "#table\tfiles\tstatic\tgraph text\tpath text",
        "#table\ttriples\tstream\tstream text\tg text\ts text\tp text\to text\tt integer",
        f"files\t\\N\t{task.static[0]}",
        f"files\t{Q}graph\t{tmp_path / 'graph.nt'}",
    ]
    assert [batch.splitlines() for batch in batches] == [
        [
            f'triples\t{Q}s\t<{Q}g>\t<{Q}1>\t<{Q}is>\t"x"@en\t100',
            f"triples\t{Q}s\t<{Q}g>\t<{Q}1>\t<{Q}in>\t<{Q}y>\t100",
            f"triples\t{Q}s\t\\N\t<{Q}1>\t<{Q}is>\t<{Q}y>\t200",
            "#end\t0\t1099",
        ],
        [f"triples\t{Q}s\t\\N\t<{Q}2>\t<{Q}is>\t<{Q}z>\t1100", "#end\t1\t1100"],
    ]
    answers = [list(done.answers) for done in run(task, tmp_path, fake) if isinstance(done, Done)]
    assert answers == [
        [(100, {"a": f"{Q}1", "b": "x"}), (100, {"a": f"{Q}1", "b": f"{Q}y"}), (200, {"a": f"{Q}1", "b": f"{Q}y"})],
        [(1100, {"a": f"{Q}2", "b": f"{Q}z"})],
    ]


def test_the_classes_of_cqels_that_ask_for_the_time_get_that_of_the_stream(tmp_path: Path) -> None:
    jar, system, clock = tmp_path / "cqels.jar", b"\x00\x10java/lang/System\x01", b"\x00\x10ClockOfTheStream\x01"
    asking = ("org/deri/cqels/data/EnQuad.class", "org/deri/cqels/engine/RangeWindow.class")
    with zipfile.ZipFile(jar, "w") as file:
        for name in (*asking, "org/deri/cqels/engine/TripleWindow.class"):
            file.writestr(name, system)
    set_clock(jar)
    with zipfile.ZipFile(jar) as file:
        assert {name: file.read(name) for name in file.namelist()} == {
            **dict.fromkeys(asking, clock),
            "org/deri/cqels/engine/TripleWindow.class": system,
        }


def test_a_query_over_its_limit_is_stopped_within_a_micro_batch(fake: Engine, task: Task, tmp_path: Path) -> None:
    limited = replace(task, options={"rdf-engines.cpu_seconds": 0})
    (stopped,) = in_turns(
        [Contender("fake", "answers each triple", lambda t, f: run(t, f, fake))], limited, tmp_path / "runs", 100
    )
    assert (stopped.why, stopped.upto) == ("stopped within micro-batch 1 of 2: over 0 CPU seconds", 100)
    assert stopped.bag.counts == {100: 2}
    with pytest.raises(InputError, match=r"must be a number of seconds, not 'x'"):
        next(run(replace(task, options={"rdf-engines.cpu_seconds": "x"}), tmp_path, fake))
