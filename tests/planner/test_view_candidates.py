"""Answers do not depend on the design of sub-results: any design, changed with every batch, gives the same bag."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from local_runs import Cut, Registered, Settings, World, force_designs, force_plans, register
from random_cases import make

from cqels_opt.lod.open_store import open_store
from cqels_opt.operators.blocks import Block
from cqels_opt.planner import view_candidates
from cqels_opt.plans import DeltaRule
from cqels_opt.plans.view_selection import neighbours
from cqels_opt.query.parser import parse
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.state import worker_cache

PATTERNS = ["?x :near ?m", "?m :near ?y", "?a :name ?n", "?a :knows ?b", "?b :knows ?c", "?c :name ?k", "?y :cap ?v", "?x ?p ?o"]


UNITS = ["OPTIONAL { ?x :cap ?q }", "OPTIONAL { ?a :name ?q }", "MINUS { ?a :knows ?z }", "FILTER EXISTS { ?x :near ?r }"]


def text(rng: random.Random) -> str:
    """A query of two occurrences and a few static patterns, of whose variables only some are read."""
    chosen = rng.sample(PATTERNS, rng.choice([2, 3, 4, 5]))
    shown = ["?a", "?x", *(v for v in dict.fromkeys(" ".join(chosen).split()) if v[0] == "?" and rng.random() < 0.4)]
    condition = rng.choice(["", "", "FILTER(?a != ?x)", *UNITS])
    distinct = rng.choice(["", "", "DISTINCT "])
    return f"""PREFIX : <http://ex.org/> SELECT {distinct}{" ".join(dict.fromkeys(shown))}
    FROM NAMED :S [NOW] AS ?u FROM NAMED :S [RANGE {rng.choice([1, 2, 4])} s] AS ?w
    WHERE {{ GRAPH ?u {{ ?a :at ?x }} GRAPH ?w {{ ?z :at ?x }} {" . ".join(chosen)} {condition} }}"""


@pytest.mark.parametrize("seed", range(30))
def test_designs_by_lot_give_the_answers_of_one(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    settings = Settings(rng.choice(["istream", "rstream", "dstream"]))
    query = register(text(rng), make(seed).world, tmp_path, settings)
    how = Cut(rng.choice(["3", "7", "500ms"]), "adaptive", 1, rng.choice([None, 3]))
    sink, others = LocalSink(), 0
    driver = query.driver(how, sink=sink)
    for number, rows in enumerate(query.chunks(how)):
        others += force_designs(driver, rng)
        if seed % 2:
            force_plans(driver, rng)
        driver.batch(number, rows)
    assert query.judged(query.answers(sink.lines)).equal
    if any(b.parts for b in query.program.blocks) and len(query.chunks(how)) > 5:
        assert others


@pytest.mark.long
def test_random_queries_under_designs_by_lot(tmp_path: Path) -> None:
    """The whole language over worlds by lot, wherever a block has more than one design."""
    several = 0
    for seed in range(120):
        case = make(40_000 + seed)
        query = register(case.query(), case.world, tmp_path / str(seed), case.settings)
        if not any(block.parts for block in query.program.blocks):
            continue
        several += 1
        rng, sink = random.Random(seed), LocalSink()
        driver = query.driver(Cut("7"), sink=sink)
        for number, rows in enumerate(query.chunks(Cut("7"))):
            force_designs(driver, rng)
            driver.batch(number, rows)
        assert query.answers(sink.lines) == query.run(Cut("100", "first")).answers
    assert several > 5


# ------------------------------------------------------------------ what a sub-result is like before it is made
def connected(block: Block) -> Iterator[int]:
    """Some groups of a block's parts, those that designs can have."""
    adjacent = view_candidates.adjacency(block)
    seen = {tuple(1 << i for i in range(len(block.parts)))}
    front = list(seen)
    while front:
        for other in neighbours(front.pop(), adjacent):
            if other not in seen:
                seen.add(other)
                front.append(other)
    yield from sorted({group for design in seen for group in design if group.bit_count() > 1})


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5, 7, 9, 11])
def test_few_keys_are_measured_exactly(seed: int, tmp_path: Path) -> None:
    query = register(text(random.Random(seed)), make(seed).world, tmp_path)
    store = open_store(Path(query.program.store))
    groups = [(block, group) for block in query.program.blocks if block.parts for group in connected(block)]
    assert groups
    for block, group in groups:
        told = view_candidates.measure(block, store, group)
        made = worker_cache.relation(query.program.store, view_candidates.make(tmp_path / "made", block, store, group).at)
        assert (told.rows, told.total) == (made.rows, made.total)
        assert told.passed >= told.total
        assert all(told.distincts[v] >= made.distinct(v) for v in made.variables)
        assert set(made.variables) == set(view_candidates.kept_variables(block, group))


@pytest.mark.long
def test_many_keys_are_measured_by_a_sample(tmp_path: Path) -> None:
    """3,000 people, one to twelve names and friends each: of the pairs the sample says rows and bags within 10 %."""
    world = make(3).world
    rng = random.Random(5)
    people = [f"<http://ex.org/q{i}>" for i in range(3000)]
    friends = [(one, "<http://ex.org/knows>", rng.choice(people[:300])) for one in people for _ in range(rng.randint(1, 12))]
    world.default.extend(dict.fromkeys(friends))
    query = register(
        """PREFIX : <http://ex.org/> SELECT ?a ?b FROM NAMED :S [NOW] AS ?u
        WHERE { GRAPH ?u { ?a :at ?x } ?a :knows ?c . ?b :knows ?c }""",
        world,
        tmp_path,
    )
    (block,) = query.program.blocks
    store = open_store(Path(query.program.store))
    told = view_candidates.measure(block, store, 0b11)
    made = worker_cache.relation(query.program.store, view_candidates.make(tmp_path / "made", block, store, 0b11).at)
    assert made.rows > 100_000
    assert told.rows == pytest.approx(made.rows, rel=0.1)
    assert told.total == pytest.approx(made.total, rel=0.1)
    assert told.bytes == pytest.approx(view_candidates.as_made(made).bytes, rel=0.2)


# ------------------------------------------------------------------ names, files, what fixed plans see
def test_parts_have_names_of_their_own_and_the_compiled_design_keeps_its(tmp_path: Path) -> None:
    query = register(
        """PREFIX : <http://ex.org/> SELECT ?a ?b FROM NAMED :S [NOW] AS ?u
        WHERE { GRAPH ?u { ?a :at ?x } ?a :knows ?c . ?b :knows ?c . ?b :name ?n }""",
        make(3).world,
        tmp_path,
    )
    (block,) = query.program.blocks
    assert [(s.name, s.of) for s in block.statics] == [("name_knows_knows", 0b111)]
    assert [(s.name, s.of) for s in block.parts] == [("knows#1", 1), ("knows#2", 2), ("name", 4)]  # numbered last
    assert view_candidates.relation_name(block, 0b011) == "knows#1+knows#2"
    assert view_candidates.kept_variables(block, 0b011) == ("a", "b")
    assert view_candidates.kept_variables(block, 0b111) == ("a", "b")
    names = [static.name for design in block_designs(block) for static in design.statics]
    assert all(not set(name) & set(" :;»()[]?,") for name in names)


def block_designs(block: Block) -> Iterator[Block]:
    """The block with each two parts joined."""
    for one, other in combinations(range(len(block.parts)), 2):
        group = 1 << one | 1 << other
        made = view_candidates.Static(
            view_candidates.relation_name(block, group), view_candidates.kept_variables(block, group), "", 0, of=group
        )
        yield view_candidates.redesigned(block, [made, *(p for p in block.parts if not p.of & group)])


def test_a_made_sub_result_is_found_again_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    query = register(text(random.Random(1)), make(1).world, tmp_path)
    (block,) = query.program.blocks
    store, group = open_store(Path(query.program.store)), next(connected(block))
    assert view_candidates.find_made(tmp_path / "made", block, store, group) is None
    made = view_candidates.make(tmp_path / "made", block, store, group)
    assert view_candidates.find_made(tmp_path / "made", block, store, group) == made
    for file in Path(made.at).glob("*.npy"):
        file.write_bytes(b"")
    assert view_candidates.find_made(tmp_path / "made", block, store, group) is None


def held_rows(query: Registered, driver: Driver) -> dict[str, int]:
    block = driver.planners["q"].blocks[query.program.blocks[0].name]
    return {name: window.card() for name, window in block.statistics.windows.items()}


def test_the_statistics_of_windows_go_on_under_another_design(tmp_path: Path) -> None:
    """Join sizes with what a design brings are as if it had been there from the beginning."""
    query = register(text(random.Random(2)), make(2).world, tmp_path)
    early, late = query.driver(Cut("3")), query.driver(Cut("3"))
    block = early.planners["q"].blocks["b0"]
    design = next(d for d in neighbours(block.catalogue.default, block.catalogue.adjacent))
    for driver in (early, late):
        catalogue = driver.planners["q"].blocks["b0"].catalogue
        for group in catalogue.missing(design):
            assert catalogue.folder is not None
            catalogue.add(catalogue.make(group, catalogue.folder))
    early.planners["q"].blocks["b0"].use_design(design)
    chunks = query.chunks(Cut("3"))
    for number, rows in enumerate(chunks):
        if number == len(chunks) // 2:
            late.planners["q"].blocks["b0"].use_design(design)
        for driver in (early, late):
            driver.batch(number, rows)
    one, other = (d.planners["q"].blocks["b0"].statistics for d in (early, late))
    assert held_rows(query, early) == held_rows(query, late)
    assert one.keys == other.keys
    rule = DeltaRule(tuple(one.windows))
    for source in rule.order:
        assert one.view(rule.contents(source)).values() == other.view(rule.contents(source)).values()
    assert np.array_equal(early.ingest_state.in_order()["<http://ex.org/S>"], late.ingest_state.in_order()["<http://ex.org/S>"])


def test_a_sub_result_does_not_take_the_name_of_merged_windows(tmp_path: Path) -> None:
    """Both are made of the names of their parts: streams here, predicates there."""
    ex = "http://ex.org/"
    text = f"""PREFIX : <{ex}> SELECT * FROM STREAM :likes [RANGE 1s STEP 1s] FROM STREAM :knows [RANGE 1s STEP 1s]
        WHERE {{ ?a :at ?x . GRAPH :g {{ ?a :likes ?b . ?b :knows ?c . ?c :near ?d }} }}"""
    triples = [(f"<{ex}a>", f"<{ex}{name}>", f"<{ex}a>") for name in ("likes", "knows", "near")]
    world = World({f"{ex}likes": [[]], f"{ex}knows": [[]]}, [], {f"{ex}g": triples})
    (block,) = register(parse(text, "csparql"), world, tmp_path, Settings("istream", {"": "wc,nc"})).program.blocks
    group = sum(1 << i for i, part in enumerate(block.parts) if part.name in ("likes", "knows"))
    assert [o.name for o in block.occurrences] == ["likes+knows"]
    assert view_candidates.relation_name(block, group) == "likes+knows#static"
