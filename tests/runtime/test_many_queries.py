"""Many queries in one run: each has the answers that it has alone, whatever it shares, and whenever it comes or goes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from different_query_cases import EX, DifferentRun, different, elements
from local_runs import Cut, World, register
from merged_source_cases import MergedMaker
from random_cases import Maker
from shared_query_cases import Run, alike

from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.errors import InputError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.evaluate_task import FinishReport
from cqels_opt.runtime.limits import NO_LIMITS, Limits
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.state.window_state import content


def _cut(rng: random.Random, seed: int) -> Cut:
    batch, plan = rng.choice("1237"), rng.choice(["adaptive", "random"])
    return Cut(batch, plan, split=rng.choice([1, 2]), parts=rng.choice([1, 2, None]), seed=seed)


MAKERS = {"windows by name": Maker, "merged with static data": MergedMaker}


@pytest.mark.long
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("seed", range(3))
def test_instances_have_the_answers_that_they_have_alone(
    seed: int, maker: type[Maker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, some = random.Random(seed), alike(seed, 3, maker)
    run = Run(some, ["m0", "m1", "m2"], _cut(rng, seed), tmp_path, monkeypatch)
    assert [program.id for program in run.driver.programs] == ["like-m0"]
    for number, rows in enumerate(run.source.chunks(run.how)):
        run.batch(number, rows)
    for name in run.span:
        assert run.lines_of(name) == run.alone(name), name


@pytest.mark.long
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("seed", range(3))
def test_queries_come_and_go(seed: int, maker: type[Maker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, some = random.Random(1000 + seed), alike(seed, 6, maker)
    names = [member.id for member in some.members]
    there, waiting = names[: rng.randint(2, 3)], names[3:]
    run = Run(some, there, _cut(rng, seed), tmp_path, monkeypatch)
    killed = rng.random() < 0.5
    for number, rows in enumerate(run.source.chunks(run.how)):
        if killed and number and rng.random() < 0.3:
            run.driver = run.opened()
        come = [waiting.pop(0) for _ in range(rng.randint(0, 2)) if waiting] if number and rng.random() < 0.5 else []
        go = [rng.choice(there)] if number and len(there) > 1 and rng.random() < 0.3 else []
        run.change(come, go)
        there = [*(name for name in there if name not in go), *come]
        run.batch(number, rows)
        if killed and rng.random() < 0.3:  # done, but perhaps Spark has not noted it
            run.driver = run.opened()
            if rng.random() < 0.7:
                run.batch(number, rows)
        assert run.queries.names() == there
    for name in run.span:
        assert run.lines_of(name) == run.alone(name), name


ONE = f"PREFIX : <{EX}> SELECT ?p ?x FROM NAMED :S [RANGE 2s] AS ?w {{ GRAPH ?w {{ ?p :at ?x }} }}"
OTHER = f"PREFIX : <{EX}> SELECT ?p ?v FROM NAMED :S [RANGE 5s] AS ?w {{ GRAPH ?w {{ ?p :at ?x . ?p :val ?v }} }}"


# ------------------------------------------------------------------ different queries over one stream
@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_different_queries_have_the_answers_that_they_have_alone(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    run = DifferentRun(different(rng, 8), 8, _cut(rng, seed), tmp_path)
    for number, rows in enumerate(run.chunks):
        run.driver.batch(number, rows)
    for i, text in enumerate(run.texts):
        assert run.lines_of(i) == run.alone(i), text


@pytest.mark.long
@pytest.mark.parametrize("limits", [NO_LIMITS, Limits(rows=1 << 40)])
def test_the_answers_of_a_batch_are_together(limits: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory, unless a limit may end one of the queries, whose answers must then be left out: each has a file then."""
    run = DifferentRun(different(random.Random(4), 6), 6, Cut("6"), tmp_path)
    run.driver.options = replace(run.driver.options, limits=limits)
    seen: list[tuple[int, int]] = []
    put = run.sink.put

    def counting(batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        seen.append((len(chunks), len([*(folder / "answers").glob(f"{batch:08d}-*.jsonl")])))
        return put(batch, chunks, folder)

    monkeypatch.setattr(run.sink, "put", counting)
    for number, rows in enumerate(run.chunks):
        assert len(run.driver.batch(number, rows)) == len(run.driver.programs)
    assert max(seen) == (1, 0) if limits == NO_LIMITS else min(max(seen)) > 1
    for i, text in enumerate(run.texts):
        assert run.lines_of(i) == run.alone(i), text


def test_queries_share_the_content_of_windows(tmp_path: Path) -> None:
    """Equal patterns in equal windows are read and indexed once, whatever the windows and variables are called."""
    texts = [ONE, ONE.replace("?w", "?v").replace("?x", "?y").replace("SELECT", "SELECT DISTINCT"), ONE.replace("2s", "3s")]
    source = register(ONE, World({f"{EX}S": [elements(12)]}), tmp_path / "source")
    made = source.driver(Cut("6"))
    members = [member_of(record_of(text, f"d{i}")) for i, text in enumerate(texts)]
    there = QueryCatalog(members, tmp_path / "state", Programs(source.folder / "store", tmp_path / "queries"))
    driver = Driver(tmp_path / "state", there.programs(), LocalRunner(), LocalSink(), made.frontier, made.options, catalog=there)
    for number, rows in enumerate(source.chunks(Cut("6"))):
        driver.batch(number, rows)
    steps = [driver.bare_step(p, 1, 0, 0, np.array([0]), driver.step_files([])) for p in driver.programs]
    found = [content(p.blocks[0].occurrences[0], step).state for p, step in zip(driver.programs, steps)]
    assert len(found) == 3 and len({id(one) for one in found}) == 2


# ------------------------------------------------------------------ queries that nobody has prepared for
@pytest.mark.parametrize("kind", ["", "SELECT DISTINCT"])
@pytest.mark.parametrize("at", [1, 4])
def test_other_queries_begin_with_empty_windows(at: int, kind: str, tmp_path: Path) -> None:
    made_of, other = elements(60), OTHER.replace("SELECT", kind or "SELECT")
    source = register(ONE, World({f"{EX}S": [made_of]}), tmp_path / "one")
    how, sink = Cut("6"), LocalSink()
    made = source.driver(how)
    there = QueryCatalog(
        [member_of(record_of(ONE, "one"))], tmp_path / "state", Programs(tmp_path / "one" / "store", tmp_path / "queries")
    )
    named = replace(made.options, named=True)
    driver = Driver(tmp_path / "state", there.programs(), LocalRunner(), sink, made.frontier, named, catalog=there)
    for number, rows in enumerate(source.chunks(how)):
        if number == at:
            there.add([member_of(record_of(other, "other"))])
            with pytest.raises(InputError, match="there is a query 'other' already"):
                there.add([member_of(record_of(other, "other"))])
        driver.batch(number, rows)
    seen = [element for element in made_of if element.t > made_of[6 * at - 1].t]
    alone = register(other, World({f"{EX}S": [seen]}), tmp_path / "other").run(Cut("100")).lines
    said = ', "query": "other"'
    assert Counter(line.replace(said, "") for line in sink.lines if said in line) == Counter(alone) and alone


def test_the_terms_of_removed_queries_are_forgotten(tmp_path: Path) -> None:
    """Each batch reads the pages of terms: their number follows the queries that are there, not those that have been there."""
    how, source = Cut("2"), register(ONE, World({f"{EX}S": [elements(60)]}), tmp_path / "one")
    made, programs = source.driver(how), Programs(source.folder / "store", tmp_path / "queries")
    there = QueryCatalog([member_of(record_of(ONE, "one"))], tmp_path / "state", programs)
    options = replace(made.options, named=True)
    driver = Driver(tmp_path / "state", there.programs(), LocalRunner(), LocalSink(), made.frontier, options, catalog=there)
    texts = [OTHER.replace("} }", f"}} FILTER(?x != :new{i}) }}").replace("5s", f"{2 + i % 7}s") for i in range(20)]
    for number, rows in enumerate(source.chunks(how)):
        if number < 20:
            there.add([member_of(record_of(texts[number], f"n{number}"))])
        for i in (number - 2, 0 if number == 8 else -1):
            if f"n{i}" in there.names():
                there.remove(f"n{i}")
        if number == 3:
            there.add([member_of(record_of(texts[0], "n0"))])  # before its page is deleted
        driver.batch(number, rows)
        paths = {page.path for page in there.pages}
        files = {path.name for path in driver.folder.glob("terms-*.arrow")}
        assert len(paths) <= len(there.names()) and paths <= files and len(files) <= 12
    assert len(files) <= 3


def test_the_last_query_stays_and_unknown_ones_do_not_go(tmp_path: Path) -> None:
    source = register(ONE, World({f"{EX}S": [elements(6)]}), tmp_path / "one")
    programs = Programs(source.folder / "store", tmp_path / "queries")
    there = QueryCatalog([member_of(record_of(ONE, "one"))], tmp_path / "state", programs)
    with pytest.raises(InputError, match="'one' is the only query that is left: stop the run instead"):
        there.remove("one")
    with pytest.raises(InputError, match="there is no query 'two'"):
        there.remove("two")
