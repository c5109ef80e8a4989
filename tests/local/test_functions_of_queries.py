"""Functions that were registered under one IRI one after the other: each query calls the one that there was when it was registered."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import cqels_opt as cq
from cqels_opt.compiler.multi_query_sharing import alone
from cqels_opt.compiler.registration import member_of, record_of
from cqels_opt.query import extensions
from cqels_opt.query.extensions import Extension
from cqels_opt.trace.records import TraceRecord

IRI = "http://ex.org/f"
STREAM = "http://ex.org/S"
HEAD = "PREFIX : <http://ex.org/> SELECT ?p ?r FROM NAMED :S [NOW] AS ?w WHERE { GRAPH ?w { ?p :at ?l }"
CALL = f"{HEAD} BIND(:f(?l) AS ?r) }}"
STATIC = f"{HEAD} ?l :in ?m . ?m :in ?n BIND(:f(?n) AS ?r) }}"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    extensions._KNOWN.pop(f"<{IRI}>", None)


def giving(name: str, arguments: int = 1) -> None:
    """Registers a function that always gives a name."""
    cq.register_function(IRI, lambda *_: f'"{name}"', arguments=arguments)


class Job:
    """A run over a live folder, one file per batch; ``found`` are the results of the function by query."""

    def __init__(self, folder: Path, static: Path | None = None) -> None:
        self.folder, self.files, self.found = folder, 0, list[tuple[str, Any]]()
        (folder / "live").mkdir(parents=True)
        self.engine = cq.local.Engine(static=static)

    def start(self) -> None:
        self.batches = queue.Queue[TraceRecord]()
        self.run = self.engine.start({STREAM: self.folder / "live"}, self._take, self.folder / "state", listener=self.batches.put)

    def _take(self, table: Any, batch: int) -> None:
        self.found += [(row["query"], row["r"]) for row in table.to_pylist()]

    def put(self) -> None:
        """Writes an element, and waits for its batch."""
        row = {"s": "<http://ex.org/p>", "p": "<http://ex.org/at>", "o": "<http://ex.org/l>", "t": 1000 * self.files}
        (self.folder / "made").write_text(json.dumps(row) + "\n", encoding="utf-8")
        (self.folder / "made").rename(self.folder / "live" / f"{self.files}.ndjson")
        while self.batches.get(timeout=60).batch < self.files:
            continue
        self.files += 1

    def stop(self) -> list[tuple[str, Any]]:
        self.run.stop()
        self.run.await_termination()
        return self.found


def test_a_running_query_keeps_its_function(tmp_path: Path) -> None:
    """Also if the new one takes other arguments, and after static data have changed."""
    (tmp_path / "a.nt").write_text("<http://ex.org/l> <http://ex.org/in> <http://ex.org/m> .\n", encoding="utf-8")
    (tmp_path / "b.nt").write_text("<http://ex.org/m> <http://ex.org/in> <http://ex.org/n> .\n", encoding="utf-8")
    giving("one")
    job = Job(tmp_path / "job", tmp_path / "a.nt")
    job.engine.register(STATIC, id="q")
    job.start()
    job.put()
    giving("two", arguments=2)
    job.engine.update(add=tmp_path / "b.nt")
    for _ in range(3):
        job.put()
    assert job.stop() == [("q", '"one"')] * 3


def test_queries_of_one_run_have_different_functions(tmp_path: Path) -> None:
    """They are instances of no template."""
    job = Job(tmp_path)
    for name in ("one", "two"):
        giving(name)
        job.engine.register(CALL, id=name)
    job.start()
    for _ in range(2):
        job.put()
    assert sorted(job.stop()) == [("one", '"one"'), ("two", '"two"')]


def test_a_name_and_a_text_are_another_program_with_another_function(tmp_path: Path) -> None:
    """A query is removed, and another one has its name at the next start."""
    engine, found = cq.local.Engine(), list[tuple[int, ...]]()
    for name in ("one", "two"):
        giving(name)
        member = member_of(record_of(CALL, "q"))
        found.append(tuple(e.version for e in engine.programs.of(alone(member)).extensions if isinstance(e, Extension)))
    assert found == [(1,), (2,)]


def test_a_text_that_has_been_read_before_is_checked_again() -> None:
    engine = cq.local.Engine()
    giving("one")
    text = CALL.replace("BIND", 'FILTER(?p != "p") BIND')
    engine.register(text)
    giving("two", arguments=2)
    with pytest.raises(cq.QueryError, match="f> takes 2 arguments, not 1"):
        engine.register(text)


def test_other_processes_get_the_functions_that_a_query_calls(tmp_path: Path) -> None:
    """In any order, and no others: what nobody calls may be a function that cannot be sent."""
    lock = threading.Lock()
    cq.register_function("http://ex.org/other", lambda x: lock.locked(), arguments=1)
    engine, packed = cq.local.Engine(), list[bytes]()
    for name in ("one", "two"):
        giving(name)
        packed.append(cloudpickle.dumps(engine.register(CALL).program))
    extensions._KNOWN.pop(f"<{IRI}>")
    extensions._VERSIONS.clear()
    extensions._KNOWN.pop("<http://ex.org/other>")
    for program in reversed(packed):
        cloudpickle.loads(program)
    found = [extensions.extension(f"<{IRI}>", version) for version in (1, 2, 0)]
    assert [each and extensions.called_once(each, '"x"') for each in found] == ['"one"', '"two"', '"two"']
