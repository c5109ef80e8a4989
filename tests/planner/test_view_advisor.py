"""Other sub-results are weighed while a query runs: built when they have paid for themselves, used once they are there."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, Registered, World, register, told

from cqels_opt.compiler.compile import Compiler
from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.planner.background_jobs import THREAD, BackgroundJobs, in_thread
from cqels_opt.planner.calibration_store import Calibration
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.planner.view_advisor import ViewAdvisor
from cqels_opt.planner.view_report import described, text
from cqels_opt.plans import Constants
from cqels_opt.plans.view_selection import Design
from cqels_opt.query.parser import parse
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.trace.records import SubResults, TraceRecord
from cqels_opt.verify import Element

EX = "http://ex.org/"
S = f"{EX}S"
TEXT = """PREFIX : <http://ex.org/> SELECT ?a ?b ?c ?d FROM NAMED :S [NOW] AS ?u
WHERE { GRAPH ?u { ?a :at ?x } ?a :knows ?b . ?b :knows ?c . ?c :near ?d }"""
PAIRS = """PREFIX : <http://ex.org/> SELECT ?a ?b FROM NAMED :S [RANGE 2 s] AS ?u
WHERE { GRAPH ?u { ?a :at ?x } ?a :wrote ?p . ?b :wrote ?p }"""
SLOW = Calibration(Constants(**{f.name: 600 * getattr(Constants(), f.name) for f in fields(Constants)}))
"""A machine that takes long enough over a few rows for the seconds to matter."""


def node(name: str) -> str:
    return f"<{EX}{name}>"


def world(sizes: list[int], seed: int = 1) -> World:
    """A batch of 100 ms for each size: so many elements. Each of 200 people knows 4 others and is near two places."""
    rng = random.Random(seed)
    people = [node(f"p{i}") for i in range(200)]
    static = [(a, node("knows"), b) for a in people for b in rng.sample(people, 4)]
    static += [(a, node("near"), node(f"x{i}")) for a in people for i in rng.sample(range(9), 2)]
    static += [(a, node("wrote"), node(f"w{i % 3}")) for i, a in enumerate(people[:9])]
    times = [100 * number + round(90 * i / size) for number, size in enumerate(sizes) for i in range(size)]
    stream = [Element(t, ((rng.choice(people), node("at"), node("x1")),)) for t in times]
    return World({S: [stream]}, static)


def slow(query: Registered, start: Callable[[Callable[[], None]], None], folder: Path | None = None, sink: Any = None) -> Driver:
    """A driver on the slow machine."""
    driver = query.driver(HOW, folder, sink=sink)
    driver.options = replace(driver.options, plan=PlannerOptions(calibration=SLOW))
    driver.background_jobs = BackgroundJobs(driver.folder / "subresults", start)
    driver.restore(None)
    return driver


HOW = Cut("100ms")


def at_once(work: Callable[[], None]) -> None:
    work()


def test_a_job_is_asked_for_again_if_no_thread_can_be_started(tmp_path: Path) -> None:
    later: list[Callable[[], None]] = []

    def start(work: Callable[[], None]) -> None:
        later.append(work)
        if len(later) == 1:
            raise RuntimeError("can't start new thread")

    jobs = BackgroundJobs(tmp_path, start)
    assert jobs.ask(("size",), lambda: 3) is None and not jobs.busy
    assert jobs.ask(("size",), lambda: 3) is None and jobs.busy
    later[1]()
    assert jobs.ask(("size",), lambda: 3) == 3


def batches(driver: Driver, query: Registered) -> list[TraceRecord]:
    return [record for number, rows in enumerate(query.chunks(HOW)) for record in driver.batch(number, rows)]


def changes(records: list[TraceRecord]) -> list[tuple[int, SubResults]]:
    return [(record.batch, change) for record in records for change in record.sub_results]


def relations_of(record: TraceRecord) -> set[str]:
    (delta,) = record.deltas
    return {operator.relation for operator in delta.operators}


@pytest.mark.long
def test_a_delta_that_grows_makes_a_sub_result_pay(tmp_path: Path) -> None:
    """A trickle does not pay for building anything; fifty rows a batch soon do."""
    query = register(TEXT, world([1] * 12 + [50] * 28), tmp_path)
    sink = LocalSink()
    records = batches(slow(query, at_once, sink=sink), query)
    (when, first), *_ = changes(records)
    assert when > 12
    assert first.was == ("knows#1", "knows#2", "near")
    assert "knows#1+knows#2" in first.now or "knows#2+near" in first.now
    assert first.saved is not None and first.cost is not None and first.price is not None
    assert first.price < first.cost < first.saved
    assert relations_of(records[when - 1]) == {"u", *first.was}
    assert relations_of(records[when]) == {"u", *first.now}
    assert query.judged(query.answers(sink.lines)).equal


def test_designs_are_priced_when_the_answers_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers do not wait for a pricing, which may take as long as the joins of several batches."""
    done: list[str] = []

    class Sink(LocalSink):
        def put(self, batch: int, *chunks: Any) -> dict[str, int]:
            done.append("answers")
            return super().put(batch, *chunks)

    price = ViewAdvisor.price_designs
    monkeypatch.setattr(ViewAdvisor, "price_designs", lambda *given: (done.append("pricing"), price(*given)))
    query = register(TEXT, world([1] * 2 + [50] * 28), tmp_path)
    batches(slow(query, at_once, sink=Sink()), query)
    assert done.count("answers") == 30
    assert done[0] == "answers" and "pricing" in done
    assert all(before == "answers" for before, now in pairwise(done) if now == "pricing")


def test_a_design_is_not_taken_for_what_it_saved_in_a_larger_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch of a replay fills a window; those after it are small, and cost more under the other design."""
    query = register(TEXT, world([1]), tmp_path)
    (planner,) = slow(query, at_once).planners.values()
    (advisor,) = (block.advisor for block in planner.blocks.values())
    assert advisor is not None
    prices: list[float] = []

    def priced(design: Design, _: object, cost: float, *__: object) -> None:
        advisor._priced[design], advisor._costs[design] = advisor._batch, prices[-1]
        advisor.benefits.record(design, prices[-1], cost)

    for name, answer in (("_known", True), ("_measured", True), ("building", 0.0)):
        monkeypatch.setattr(advisor, name, lambda design, answer=answer: answer)
    monkeypatch.setattr(advisor, "_price", priced)
    taken = []
    for cost, price in ((10.0, 2.0), (0.5, 1.0), (0.5, 0.1)):
        prices.append(price)
        assert advisor.should_price(cost)
        advisor.price_designs({}, cost, {}, advisor.catalogue.block, [])
        taken.append(advisor._target is not None)
    assert taken == [False, False, True]


def test_a_trickle_leaves_everything_as_it_was_compiled(tmp_path: Path) -> None:
    query = register(TEXT, world([1] * 30), tmp_path)
    driver = slow(query, at_once)
    assert not changes(batches(driver, query))
    assert not (driver.folder / "subresults").exists()


@pytest.mark.long
def test_plans_that_are_kept_keep_the_compiled_design(tmp_path: Path) -> None:
    query = register(TEXT, world([50] * 20), tmp_path)
    for mode in ("static", "first", "worst"):
        driver = slow(query, at_once)
        driver.options = replace(driver.options, plan=PlannerOptions(mode, calibration=SLOW))
        driver.restore(None)
        assert not changes(batches(driver, query))


@pytest.mark.long
def test_a_switch_waits_for_what_is_being_built(tmp_path: Path) -> None:
    """The thread takes its time: batches go on under the old design, and the one after it is done under the new."""
    query = register(TEXT, world([50] * 32), tmp_path)
    waiting: list[Callable[[], None]] = []
    driver = slow(query, waiting.append, sink=(sink := LocalSink()))
    records, asked, due = [], 0, -1
    for number, rows in enumerate(query.chunks(HOW)):
        building = any(what == "make" for what, *_ in driver.background_jobs.busy)
        asked += building
        if waiting and (not building or asked == 4):
            due = number if building else due
            waiting.pop()()
        records += driver.batch(number, rows)
    assert asked == 4
    assert next(number for number, _ in changes(records)) == due
    assert query.judged(query.answers(sink.lines)).equal


@pytest.mark.long
def test_a_run_that_is_killed_while_it_builds_builds_again(tmp_path: Path) -> None:
    query = register(TEXT, world([50] * 28), tmp_path)
    waiting: list[Callable[[], None]] = []
    sink, folder, chunks = LocalSink(), tmp_path / "state", query.chunks(HOW)
    driver, number = slow(query, waiting.append, folder, sink), 0
    while not any(what == "make" for what, *_ in driver.background_jobs.busy):
        driver.batch(number, chunks[number])
        number += 1
        if waiting and not any(what == "make" for what, *_ in driver.background_jobs.busy):
            waiting.pop()()
    assert not list((folder / "subresults").glob("*"))
    driver = slow(query, at_once, folder, sink)
    records = [record for n in range(number, len(chunks)) for record in driver.batch(n, chunks[n])]
    assert changes(records)[0][0] == number
    assert query.judged(query.answers(sink.lines)).equal


@pytest.mark.long
def test_a_thread_builds_beside_the_batches(tmp_path: Path) -> None:
    query = register(TEXT, world([50] * 28), tmp_path)
    driver, sink = slow(query, in_thread, sink=(sink := LocalSink())), sink
    records = []
    for number, rows in enumerate(query.chunks(HOW)):
        records += driver.batch(number, rows)
        for thread in threading.enumerate():
            if thread.name == THREAD:
                thread.join()
    assert changes(records)
    assert query.judged(query.answers(sink.lines)).equal


@pytest.mark.long
def test_a_sub_result_that_cannot_be_made_is_said_once(tmp_path: Path) -> None:
    query = register(TEXT, world([50] * 30), tmp_path)
    sink = LocalSink()
    driver = slow(query, at_once, sink=sink)
    driver.background_jobs.folder.write_text("a file where the folder would be")
    records = batches(driver, query)
    failed = [change.failed for _, change in changes(records)]
    assert failed and len(failed) == len(set(failed))
    assert all(f is not None and "Error" in f and change.was == change.now for f, (_, change) in zip(failed, changes(records)))
    assert all(relations_of(r) == {"u", "knows#1", "knows#2", "near"} for r in records)
    assert query.judged(query.answers(sink.lines)).equal


def together(texts: Mapping[str, str], how: World, folder: Path, sink: LocalSink) -> tuple[Driver, Registered]:
    """A driver of several queries on the slow machine, and one of them, which has the chunks."""
    one, *_ = (register(text, how, folder / name) for name, text in texts.items())
    made, programs = one.driver(HOW), Programs(one.folder / "store", folder / "queries")
    catalog = QueryCatalog([member_of(record_of(text, name)) for name, text in texts.items()], folder / "state", programs)
    options = replace(made.options, named=True, plan=PlannerOptions(calibration=SLOW))
    driver = Driver(folder / "state", catalog.programs(), LocalRunner(), sink, made.frontier, options, catalog=catalog)
    driver.background_jobs = BackgroundJobs(driver.folder / "subresults", at_once)
    driver.restore(None)
    return driver, one


def test_queries_whose_relations_have_the_same_names_have_their_own_sub_results(tmp_path: Path) -> None:
    """In both queries ``knows#2+near`` is a sub-result of the block ``b0``; they join these patterns on other variables."""
    texts = {"one": TEXT, "two": TEXT.replace("?b :knows ?c", "?c :knows ?b")}
    how, sink = world([50] * 18), LocalSink()
    driver, one = together(texts, how, tmp_path, sink)
    records = batches(driver, one)
    assert {record.query for record in records if any("knows#2+near" in c.now for c in record.sub_results)} == {*texts}
    for name in texts:
        said = f', "query": "{name}"'
        mine = Counter(line.replace(said, "") for line in sink.lines if said in line)
        assert mine == Counter(register(texts[name], how, tmp_path / f"{name} alone").run(HOW).lines) and mine


@pytest.mark.long
def test_a_template_keeps_its_design_when_a_query_is_added(tmp_path: Path) -> None:
    texts = {f"q{i}": TEXT.replace(":at ?x", f":at :x{i}") for i in range(3)}
    driver, one = together({name: texts[name] for name in ("q0", "q1")}, world([50] * 20), tmp_path, LocalSink())
    records, chunks = [], one.chunks(HOW)
    for number in range(18):
        records += driver.batch(number, chunks[number])
    assert changes(records)
    assert driver.catalog is not None
    driver.catalog.add([member_of(record_of(texts["q2"], "q2"))])
    records += driver.batch(18, chunks[18])
    assert relations_of(records[-1]) == relations_of(records[-2]) and "knows#2+near" in relations_of(records[-1])


def test_nothing_is_made_beyond_the_budget(tmp_path: Path) -> None:
    """Neither while the query is registered nor while it runs."""
    query = register(PAIRS, world([1]), tmp_path)
    assert [s.name for s in query.program.blocks[0].statics] == ["wrote_wrote"]
    (tmp_path / "less").mkdir()
    compiler = Compiler(parse(PAIRS), str(tmp_path / "store"), tmp_path / "less", query.settings.report, budget=100)
    assert [s.name for s in compiler.compile("q", "istream").blocks[0].statics] == ["wrote#1", "wrote#2"]
    query = register(TEXT, world([50] * 28), tmp_path / "q")
    (block,) = query.program.blocks
    query.program = replace(query.program, blocks=(replace(block, budget=2000),))
    driver = slow(query, at_once)
    assert not changes(batches(driver, query))
    assert not (driver.folder / "subresults").exists()
    (planner,) = driver.planners["q"].blocks.values()
    assert sorted(planner.catalogue.measured) == [0b011, 0b110, 0b111]
    assert all(planner.catalogue.bytes((group,)) > 2000 for group in planner.catalogue.measured if group.bit_count() > 1)


@pytest.mark.long
@pytest.mark.parametrize("every", [1, 7])
def test_a_restart_goes_on_under_the_design_it_left(every: int, tmp_path: Path) -> None:
    """Stopped after each batch, or after every seventh: the same plans, estimates and changes as in one go."""
    query = register(TEXT, world([50] * 28), tmp_path)
    undisturbed = told(batches(slow(query, at_once), query))
    sink, records, folder = LocalSink(), [], tmp_path / "state"
    driver = slow(query, at_once, folder=folder, sink=sink)
    for number, rows in enumerate(query.chunks(HOW)):
        if number % every == 0:
            driver = slow(query, at_once, folder=folder, sink=sink)
        records += driver.batch(number, rows)
    assert any(r["sub_results"] for r in undisturbed)
    assert told(records) == undisturbed
    assert query.judged(query.answers(sink.lines)).equal


@pytest.mark.long
@pytest.mark.parametrize("mode", ["adaptive", "first"])
def test_a_restart_without_its_sub_results_runs_as_compiled(mode: str, tmp_path: Path) -> None:
    query = register(TEXT, world([50] * 28), tmp_path)
    sink, folder = LocalSink(), tmp_path / "state"
    driver = slow(query, at_once, folder=folder, sink=sink)
    records, chunks = [], query.chunks(HOW)
    for number in range(24):
        records += driver.batch(number, chunks[number])
    assert changes(records)
    for file in (folder / "subresults").rglob("*"):
        if file.is_file():
            file.unlink()
    driver = slow(query, at_once, folder=folder, sink=sink)
    driver.options = replace(driver.options, plan=PlannerOptions(mode, calibration=SLOW))
    driver.restore(None)
    (first,) = driver.batch(24, chunks[24])
    assert relations_of(first) == {"u", "knows#1", "knows#2", "near"}
    for number in range(25, len(chunks)):
        driver.batch(number, chunks[number])
    assert query.judged(query.answers(sink.lines)).equal


# ------------------------------------------------------------------ explain
def test_explain_shows_sub_results_and_what_others_would_cost(tmp_path: Path) -> None:
    query = register(PAIRS, world([1]), tmp_path)
    planner = QueryPlanner(query.program, PlannerOptions())
    planner.choose()
    (block,) = planner.blocks.values()
    shown = described(block, 3)
    assert shown is not None
    (used,) = shown["sub_results"]
    assert (used["relation"], used["variables"], used["of"]) == ("wrote_wrote", ["a", "b"], ["wrote#1", "wrote#2"])
    assert used["rows"] == 27
    assert used["bytes"] == block.catalogue.size_of(0b11).bytes
    (other,) = shown["alternatives"]
    assert (other["relations"], other["bytes"], other["seconds"]) == (["wrote#1", "wrote#2"], 0, 0)
    assert other["cost"] > shown["cost"]
    lines = text(shown, block).splitlines()
    assert lines[0].startswith("sub-results of block b0, in at most 4 GB; its plans cost ")
    assert lines[1] == "  wrote_wrote(?a ?b) of wrote#1, wrote#2: 27 rows, 844 B, 50 ms to make"
    assert lines[-1].endswith("  wrote#1, wrote#2: 0 B")


def test_explain_of_what_is_not_made_yet(tmp_path: Path) -> None:
    """Alternatives are dearer or cheaper by the documented assumptions; with the report's costs they have no seconds."""
    query = register(TEXT, world([1]), tmp_path)
    for mode in (PlannerOptions(), PlannerOptions(cost_model="paper")):
        planner = QueryPlanner(query.program, mode)
        planner.choose()
        (block,) = planner.blocks.values()
        shown = described(block, 10)
        assert shown is not None
        assert not shown["sub_results"]
        assert "none" in text(shown, block)
        costs = [other["cost"] for other in shown["alternatives"]]
        assert costs == sorted(costs) and len(costs) == 2
        seconds = [other["seconds"] for other in shown["alternatives"]]
        assert all(s > 0.05 for s in seconds) if mode.cost_model == "default" else seconds == [None, None]
    assert described(block, 0) == {**shown, "alternatives": []}
