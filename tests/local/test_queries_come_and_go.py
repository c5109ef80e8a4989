"""Queries that are added to a run and removed: which elements and instants they have, whatever happens in the same batch."""

from __future__ import annotations

import json
import queue
import re
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cqels_opt as cq
from cqels_opt.errors import RunWarning
from cqels_opt.runtime.limits import NO_LIMITS
from cqels_opt.trace.records import TraceRecord

STREAM = "http://ex.org/S"
PREFIX = "PREFIX : <http://ex.org/> "
RANGE = "FROM NAMED :S [RANGE 20s] AS ?w"
AT = f"{PREFIX}SELECT ?l {RANGE} WHERE {{ GRAPH ?w {{ :p%d :at ?l }} }}"
WHO = f"{PREFIX}SELECT ?q {RANGE} WHERE {{ GRAPH ?w {{ ?q :at ?l }} }}"
PLACES = f"{PREFIX}SELECT ?l {RANGE} WHERE {{ GRAPH ?w {{ ?q :at ?l }} }}"
OTHER = f"{PREFIX}SELECT ?q {RANGE} WHERE {{ GRAPH ?w {{ ?q :sees ?l }} }}"
NEAR = f"{PREFIX}SELECT ?q {RANGE} WHERE {{ GRAPH ?w {{ ?q :at ?l . ?q :sees ?m }} }}"
SEES = f"{PREFIX}SELECT ?q {RANGE} WHERE {{ GRAPH ?w {{ ?q :at :r%d . ?q :sees :p%d }} }}"
STATIC = f"{PREFIX}SELECT ?l {RANGE} WHERE {{ GRAPH ?w {{ :p%d :at ?l }} MINUS {{ ?l :closed ?d . ?d :since ?s }} }}"
AROUND = f"{PREFIX}SELECT ?l {RANGE} WHERE {{ GRAPH ?w {{ ?q :at ?r }} ?r :near ?l }}"
NEWEST = f"{PREFIX}SELECT ?%s FROM NAMED :S [TRIPLES 3] AS ?w WHERE {{ GRAPH ?w {{ ?q :at ?l }} }}"

Rows = set[tuple[str, int, str]]
Element = tuple[str, str, str, int]


class Job:
    """A run over a live folder, one file per batch; ``rows`` are the answers: query, second and value."""

    def __init__(
        self,
        folder: Path,
        operator: str = "rstream",
        report: str | None = None,
        limits: cq.Limits = NO_LIMITS,
        static: Path | None = None,
        **queries: str,
    ) -> None:
        self.folder, self.queries, self.files, self.limits, self.static = folder, queries, 0, limits, static
        self.options: dict[str, Any] = {"output_operator": operator, "report": report}
        self.rows: Rows = set()
        (folder / "live").mkdir(parents=True)
        self.start()

    def start(self) -> None:
        """Starts, or starts again over the checkpoint."""
        self.engine = cq.local.Engine(static=self.static)
        for name, text in self.queries.items():
            self.engine.register(text, id=name, **self.options)
        self.begin()

    def begin(self) -> None:
        """Starts a run of the engine."""
        self.batches = queue.Queue[TraceRecord]()
        live, state = {STREAM: self.folder / "live"}, self.folder / "state"
        self.run = self.engine.start(live, self._take, state, listener=self.batches.put, limits=self.limits)

    def beside(self, folder: Path, files: int = 0) -> Job:
        """Another run of the engine; it has read so many files."""
        other = copy(self)
        other.folder, other.files, other.rows = folder, files, set()
        (folder / "live").mkdir(parents=True, exist_ok=True)
        other.begin()
        return other

    def _take(self, table: pa.Table, batch: int) -> None:
        for row in table.to_pylist():
            value = next((row[name] for name in ("l", "q", "n") if row.get(name)), "")
            self.rows.add((row["query"], row["time"].second, re.sub(r"\W", " ", value.partition("^")[0]).split()[-1]))

    def add_again(self, *names: str) -> None:
        """Adds queries that have been removed."""
        self.run.add(*(query for query in self.engine.queries if query.id in names))

    def add(self, name: str, text: str) -> None:
        self.run.add(text, id=name, **self.options)

    def put(self, *elements: Element) -> None:
        """Writes a file, and waits for its batch."""
        lines = [json.dumps({"s": f"<{s}>", "p": f"<{p}>", "o": f"<{o}>", "t": t}) for s, p, o, t in map(_named, elements)]
        made = self.folder / "made"
        made.write_text("\n".join(lines) + "\n", encoding="utf-8")
        made.rename(self.folder / "live" / f"{self.files}.ndjson")
        while self.batches.get(timeout=60).batch < self.files:
            continue
        self.files += 1

    def stop(self) -> None:
        self.run.stop()
        self.run.await_termination()

    def of(self, name: str) -> list[tuple[int, str]]:
        """The answers of a query, in order of time."""
        return sorted((time, value) for query, time, value in self.rows if query == name)


def _named(element: Element) -> Element:
    s, p, o, t = element
    return f"http://ex.org/{s}", f"http://ex.org/{p}", f"http://ex.org/{o}", t


def at(*given: tuple[int, int, int]) -> Sequence[Element]:
    return [(f"p{who}", "at", f"r{place}", 1000 * second) for who, place, second in given]


@pytest.mark.parametrize("order", ["add", "remove, add", "add, remove", "add, remove, add"])
def test_an_added_instance_has_the_content_of_its_windows(order: str, tmp_path: Path) -> None:
    """Also if others of its template are removed or added in the same batch."""
    job = Job(tmp_path, a=AT % 0, b=AT % 2)
    job.put(*at((0, 0, 1), (1, 1, 2), (1, 2, 3)))
    steps: dict[str, Callable[[], None]] = {"remove": lambda: job.run.remove("a")}
    names = iter(("c", "d"))
    for step in order.split(", "):
        if step == "add":
            job.add(next(names), AT % 1)
        else:
            steps[step]()
    job.put(*at((5, 5, 4)))
    job.put(*at((5, 5, 5)))
    job.stop()
    assert job.of("c") == [(3, "r1"), (3, "r2"), (4, "r1"), (4, "r2")]
    assert job.of("d") == (job.of("c") if order.count("add") > 1 else [])


def test_another_run_of_the_engine_keeps_the_files_of_a_template(tmp_path: Path) -> None:
    """The other run adds queries to a template of the same name; its former programs are deleted."""
    job = Job(tmp_path, a=STATIC % 0, b=STATIC % 1)
    other = job.beside(tmp_path / "other")
    for second in range(1, 6):
        other.add(f"c{second}", STATIC % (second + 1))
        other.put(*at((second, 0, second)))
        job.put(*at((0, second, second)))
    other.stop()
    job.stop()
    assert job.of("a") == [(at, f"r{place}") for at in range(1, 5) for place in range(1, at + 1)]


def test_queries_that_are_added_again_may_have_another_template(tmp_path: Path) -> None:
    """First they differ in the place alone. The query that is added last fits the second template, which also leaves open who is seen."""
    job = Job(tmp_path, a=SEES % (1, 1), b=SEES % (2, 1), c=NEAR)
    elements = [(f"q{a}{b}", p, o, 0) for a in range(4) for b in range(4) for p, o in (("at", f"r{a}"), ("sees", f"p{b}"))]

    def put() -> None:
        job.put(*((s, p, o, 1000 * job.files) for s, p, o, _ in elements))

    put()
    job.run.remove("a", "b")
    put()
    job.add("d", SEES % (1, 2))
    put()
    job.add_again("a", "b")
    put()
    job.add("e", SEES % (3, 3))
    for _ in range(3):
        put()
    job.stop()
    assert {name: {value for _, value in job.of(name)} for name in "abde"} == {
        "a": {"q11"},
        "b": {"q21"},
        "d": {"q12"},
        "e": {"q33"},
    }
    assert [max(job.of(name)) for name in "abde"] == [(5, "q11"), (5, "q21"), (5, "q12"), (5, "q33")]


def near(folder: Path, name: str, place: int) -> Path:
    path = folder / name
    path.write_text(f"<http://ex.org/r0> <http://ex.org/near> <http://ex.org/r{place}> .\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("ids", ["the same ids", "other ids"])
def test_updates_reach_all_runs_of_an_engine(ids: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them continues the run of another engine; if its terms have other ids, its static data are loaded once more."""
    static, come = near(tmp_path, "static.nt", 1), near(tmp_path, "come.nt", 2)
    before = Job(tmp_path / "before", static=static, a=AROUND)
    before.put(*at((0, 0, 1)))
    before.stop()
    if ids == "other ids":
        monkeypatch.setenv("CQELS_OPT_TERM_KEY", "31" * 16)
    job = Job(tmp_path / "job", static=static, a=AROUND)
    job.put(*at((0, 0, 1)))
    other = job.beside(before.folder, before.files)
    job.engine.update(add=come)
    for each in (job, other):
        for second in (2, 3):
            each.put(*at((0, 0, second)))
        each.stop()
    assert {value for second, value in job.of("a") if second == 2} == {"r1", "r2"}
    assert {value for second, value in other.of("a") if second == 2} == {"r1", "r2"}


@pytest.mark.parametrize("name", ["b", "fresh"])
def test_the_name_of_a_removed_query_means_the_new_one(name: str, tmp_path: Path) -> None:
    """In the batch that removes it, after a start that gave its name back."""
    job = Job(tmp_path, a=WHO)
    job.put(*at((1, 1, 1)))
    job.add("b", PLACES)
    job.put(*at((2, 2, 2)))
    job.put(*at((3, 3, 3)))
    job.stop()
    job.rows.clear()
    job.start()
    job.put(*at((3, 3, 4)))
    before = {row for row in job.rows if row[0] == "b"}
    job.run.remove("b")
    job.add(name, NEAR)
    job.put(("p1", "sees", "m", 5000), ("p3", "sees", "m", 5000), ("p4", "at", "r4", 6000))
    job.put(("p4", "sees", "m", 7000))
    job.put(*at((5, 5, 8)))
    job.put(*at((5, 5, 9)))
    job.stop()
    job.rows -= before
    assert job.of(name) == [(7, "p4"), (8, "p4")]


def test_a_query_that_began_with_empty_windows_covers_no_other(tmp_path: Path) -> None:
    """Else the other one would have a part of its windows; it begins with empty ones, and has no instants of elements before."""
    job = Job(tmp_path, a=OTHER)
    job.put(*at((0, 0, 1), (1, 1, 2)))
    job.add("b", WHO)
    job.put(*at((2, 2, 3)))
    job.put(*at((3, 3, 4)))
    job.add("c", PLACES)
    job.put(*at((4, 4, 5)))
    job.put(*at((5, 5, 6)))
    job.put(*at((6, 6, 23)))
    job.stop()
    assert job.of("c") == [(5, "r4"), (6, "r4"), (6, "r5")]
    assert {time for time, _ in job.of("b")} == {3, 4, 5, 6}


def test_windows_of_the_newest_elements_are_added_one_after_the_other(tmp_path: Path) -> None:
    job = Job(tmp_path, a=WHO)
    job.put(*at((0, 0, 1), (1, 1, 2), (1, 2, 3)))
    job.add("b", NEWEST % "q")
    job.put(*at((5, 5, 4)))
    job.run.remove("b")
    job.add("c", NEWEST % "l")
    job.put(*at((6, 6, 5)))
    job.put(*at((7, 7, 6)))
    job.stop()
    job.start()
    job.put(*at((8, 8, 7)))
    job.stop()
    assert job.of("c") == [(5, "r6"), (6, "r6"), (6, "r7")]


COUNT = f"{PREFIX}SELECT (COUNT(*) AS ?n) FROM NAMED :S [RANGE 10s{{}}] AS ?w WHERE {{{{ GRAPH ?w {{{{ ?q :at ?l }}}} }}}}"


@pytest.mark.parametrize("operator", ["dstream", "istream"])
def test_an_instant_that_has_not_come_is_none(operator: str, tmp_path: Path) -> None:
    """The first element enters the grid's window at its next step: before it there is no answer that could leave."""
    job = Job(tmp_path, operator, "cc", a=WHO.replace("20s", "30s"))
    job.put(*at((1, 1, 12), (2, 2, 15)))
    job.add("n", COUNT.format(" SLIDE 10s"))
    job.put(*at((3, 3, 21)))
    job.put(*at((4, 4, 31)))
    job.put(*at((5, 5, 42)))
    job.stop()
    assert job.of("n") == {"istream": [(20, "2"), (30, "1")], "dstream": [(30, "2")]}[operator]


def test_a_query_that_began_with_empty_windows_reports_from_its_first_element_on(tmp_path: Path) -> None:
    job = Job(tmp_path, "rstream", "p:1s", a=OTHER)
    job.put(*at((1, 1, 1), (2, 2, 2)))
    job.add("n", COUNT.format(""))
    job.put(("p1", "sees", "m", 3000))
    job.put(*at((3, 3, 5)))
    job.put(*at((4, 4, 8)))
    job.stop()
    assert job.of("n") == [(3, "0"), (4, "0"), (5, "1"), (6, "1"), (7, "1")]


def test_the_order_of_queries_may_change_after_some_were_added(tmp_path: Path) -> None:
    job = Job(tmp_path, a=AT % 1, b=AT % 2)
    job.put(*at((1, 1, 1), (2, 2, 2)))
    job.add("c", AT % 3)
    job.put(*at((3, 3, 3)))
    job.stop()
    job.queries = {"b": AT % 2, "a": AT % 1}
    job.start()
    job.put(*at((3, 4, 4)))
    job.put(*at((5, 5, 5)))
    job.stop()
    assert job.of("c") == [(3, "r3"), (4, "r3"), (4, "r4")]
    assert job.of("a") == [(time, "r1") for time in range(1, 5)]


def test_a_query_that_failed_is_not_added_again_under_its_name(tmp_path: Path) -> None:
    """It was accepted, and had no answers."""
    job = Job(tmp_path, limits=cq.Limits(rows=2), a=PLACES, b=OTHER)
    with pytest.warns(RunWarning, match="a failed at batch 1"):
        job.put(*at((0, 0, 1), (1, 1, 2), (2, 2, 2), (3, 3, 2)))
        job.put(*at((4, 4, 3)))
    assert [*job.run.failures] == ["a"] and job.run.queries == ("b",)
    with pytest.raises(
        cq.InputError, match=r"the query 'a' has failed in this run: \d+ rows of answers .*; add it under another id"
    ):
        job.run.add(job.engine.queries[0])
    job.add("c", AT % 5)
    job.put(*at((5, 5, 4)))
    job.put(*at((6, 6, 5)))
    job.stop()
    assert job.of("c") == [(4, "r5")]


def test_queries_are_removed_together_or_not_at_all(tmp_path: Path) -> None:
    job = Job(tmp_path, a=PLACES, b=OTHER, c=WHO)
    for names, message in (("a", "none"), "there is no query 'none'"), (("a", "b", "c"), "'c' is the only query that is left"):
        with pytest.raises(cq.InputError, match=message):
            job.run.remove(*names)
        assert job.run.queries == ("a", "b", "c")
    with pytest.raises(cq.InputError, match="a query is a text, not NoneType"):
        job.run.add(None)
    job.run.remove("a", "b", "a")
    assert job.run.queries == ("c",)
    job.stop()
