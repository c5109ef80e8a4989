"""Terms with equal ids: answers are what they would be if all ids were different, whoever brings the second term, and when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from local_runs import Cut, Outcome, Settings, World, register
from random_cases import PREFIXES, Case, Group, make
from shared_query_cases import Run
from store_update_cases import Living

from cqels_opt.compiler.dialect_profile import QuerySemantics
from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.query.parser import parse
from cqels_opt.rdf.ids import PUBLIC, encode_one
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.verify import Element

A, B = "<http://a.org/zrcn1imlm5dc>", "<http://a.org/hb4mggqwr1rn>"
C, D = "<http://a.org/c>", "<http://a.org/d>"
P, ROLE, ADMIN = "<http://ex.org/p>", "<http://ex.org/role>", '"admin"'
S = "http://ex.org/S"
HEAD = f"{PREFIXES}SELECT {{}} FROM NAMED :S [RANGE 10s] AS ?s\nWHERE {{{{ {{}} }}}} {{}}"
DRAINED = Settings(drain=True)
BY_TWO = Cut("2")


def asked(select: str, body: str, after: str = "") -> str:
    return HEAD.format(select, body, after)


def stream(*subjects: str, objects: str = '"x"') -> World:
    """An element a second, each a triple of a subject."""
    return World({S: [[Element(1000 * i, ((s, P, objects),)) for i, s in enumerate(subjects, 1)]]})


def run(query: str, world: World, folder: Path, how: Cut = BY_TWO) -> Outcome:
    """Runs a query; the answers are those of the independent evaluation."""
    registered = register(query, world, folder, DRAINED)
    found = registered.run(how)
    verdict = registered.judged(found.answers)
    assert verdict.equal, verdict.text()
    return found


def values(found: Outcome, *terms: str) -> Counter[str]:
    return Counter(term for line in found.lines for term in terms if term.strip("<>") in line)


def test_the_two_terms_have_one_id_under_the_public_key() -> None:
    assert encode_one(A, PUBLIC) == encode_one(B, PUBLIC)


# ------------------------------------------------------------------ whom the second term meets
@pytest.mark.parametrize("how", [Cut("2"), Cut("9", split=3, parts=2)])
def test_a_term_of_the_store(how: Cut, tmp_path: Path) -> None:
    world = World(stream(B, C, B).streams, [(A, ROLE, ADMIN), (C, ROLE, ADMIN)])
    found = run(asked("?who", "GRAPH ?s { ?who :p ?x } ?who :role ?r"), world, tmp_path, how)
    assert values(found, A, B, C) == {C: 1}
    assert [text for text, _ in found.driver.scheme.displaced] == [B]


def test_a_constant_of_the_query(tmp_path: Path) -> None:
    found = run(asked("?x", f"GRAPH ?s {{ {A} :p ?x }}"), stream(B, B), tmp_path)
    assert not found.lines


def test_a_constant_of_the_query_that_the_store_has_for_another_term(tmp_path: Path) -> None:
    world = World(stream(B, A).streams, [(A, ROLE, ADMIN)])
    assert len(run(asked("?x", f"GRAPH ?s {{ {B} :p ?x }}"), world, tmp_path).lines) == 1
    assert not run(asked("?r", f"GRAPH ?s {{ ?who :p ?x }} {B} :role ?r"), world, tmp_path / "static").lines


def test_two_constants_of_a_query(tmp_path: Path) -> None:
    found = run(asked("?x ?y", f"GRAPH ?s {{ {A} :p ?x . {B} :p ?y }}"), stream(A, A, C), tmp_path)
    assert not found.lines


@pytest.mark.parametrize("condition", [f"?who = {A}", f"?who IN ({A}, {D})", f"sameTerm(?who, {A})"])
def test_a_constant_of_a_filter(condition: str, tmp_path: Path) -> None:
    found = run(asked("?who", f"GRAPH ?s {{ ?who :p ?x }} FILTER({condition})"), stream(B, C, A), tmp_path)
    assert values(found, A, B, C) == {A: 1}


@pytest.mark.parametrize(
    "how", [Cut("9"), Cut("9", split=2), Cut("1"), Cut("3", split=3, parts=2)], ids=["task", "tasks", "batches", "both"]
)
def test_a_term_of_the_stream(how: Cut, tmp_path: Path) -> None:
    """In the same task, in another one of the batch, in an earlier batch; and when pages of terms are merged."""
    found = run(
        asked("?who (COUNT(*) AS ?n)", "GRAPH ?s { ?who :p ?x }", "GROUP BY ?who"), stream(A, C, B, A, D, B), tmp_path, how
    )
    assert {A, B} & {text for text, _ in found.driver.scheme.displaced}
    assert not values(found, A, B) - Counter({A: 9, B: 9})


@pytest.mark.parametrize("how", [Cut("1"), Cut("3"), Cut("6", split=3, parts=3)])
def test_a_term_that_an_expression_makes(how: Cut, tmp_path: Path) -> None:
    """Of the store, of the windows, and another one that was made: in this step, or of a group in a step before."""
    world = World(stream(C, A, C, D).streams, [(A, ROLE, ADMIN)])
    made = 'BIND(IRI(CONCAT("http://a.org/", ?text)) AS ?who)'
    found = run(
        asked("?r", f'GRAPH ?s {{ ?y :p ?x }} BIND("{B[14:-1]}" AS ?text) {made} ?who :role ?r'), world, tmp_path / "0", how
    )
    assert not found.lines
    both = World({S: [[Element(1000 * i, ((C, P, f'"{t[14:-1]}"'),)) for i, t in enumerate([A, B, A, B, B, A], 1)]]})
    grouped = asked("?who (COUNT(*) AS ?n)", f"GRAPH ?s {{ ?y :p ?text }} {made}", "GROUP BY ?who")
    run(grouped, both, tmp_path / "1", how)
    mixed = World({S: [[Element(1000 * i, ((s, P, f'"{B[14:-1]}"'),)) for i, s in enumerate([A, C, A], 1)]]})
    found = run(asked("?y", f"GRAPH ?s {{ ?y :p ?text }} {made} FILTER(?y = ?who)"), mixed, tmp_path / "2", how)
    assert not found.lines


def test_the_parts_of_triple_terms(tmp_path: Path) -> None:
    world = World({S: [[Element(1000, ((C, P, f"<<( {A} {P} {C} )>>"),)), Element(2000, ((C, P, f"<<( {B} {P} {C} )>>"),))]]})
    registered = register(asked("?who", "GRAPH ?s { ?y :p <<( ?who :p ?z )>> }"), world, tmp_path, DRAINED)
    assert values(registered.run(Cut("1")), A, B) == {A: 1, B: 1}


# ------------------------------------------------------------------ what changes while a run continues
def test_a_restart_goes_on_with_the_second_id(tmp_path: Path) -> None:
    registered = register(asked("?who", "GRAPH ?s { ?who :p ?x }", ""), stream(A, B, C, A, B, B), tmp_path, DRAINED)
    whole = Counter(registered.run(Cut("1")).lines)
    chunks = registered.chunks(Cut("1"))
    sink = LocalSink()
    for number, chunk in enumerate(chunks):  # another process each batch, as after a kill
        registered.driver(Cut("1"), tmp_path / "state", sink=sink).batch(number, chunk)
    assert Counter(sink.lines) == whole
    assert values_of(whole, B) == 3


def values_of(lines: Counter[str], term: str) -> int:
    return sum(n for line, n in lines.items() if term.strip("<>") in line)


def case_of(query: str, world: World) -> Case:
    class Written(Case):
        @property
        def text(self) -> str:
            return query

    return Written("", (), Group(()), (), world, DRAINED)


def test_a_version_of_the_store_is_not_taken_while_the_windows_hold_another_term_with_an_id_of_it(tmp_path: Path) -> None:
    """The others go on; once the windows have let the term go the newest version is taken."""
    world = World({S: [[Element(1000 * i, ((s, P, '"x"'),)) for i, s in enumerate([B, C, D, *[D] * 20], 1)]]}, [(C, ROLE, ADMIN)])
    living = Living(
        case_of(asked("?who ?r", "GRAPH ?s { ?who :p ?x } ?who :role ?r"), world), Cut("1", tiers=CompactionPolicy()), tmp_path
    )
    chunks = living.source.chunks(Cut("1"))
    living.batch(0, chunks[0])
    living.batch(1, chunks[1])
    living.update([], [(A, ROLE, '"other"', None), (D, ROLE, '"late"', None)])
    with pytest.warns(RuntimeWarning, match="version 2 is not taken while the windows hold a term"):
        living.batch(2, chunks[2])
    assert living.version == 1
    for number in range(3, len(chunks)):
        living.batch(number, chunks[number])
    assert living.version == 2
    assert not [line for line in living.sink.lines if B.strip("<>") in line]
    assert living.judged().equal, living.judged().text()


def together(texts: Mapping[str, str], world: World, folder: Path, patch: pytest.MonkeyPatch) -> Run:
    """A run of the first of some queries, to which the others can be added."""

    class Together:
        case: Any = case_of(next(iter(texts.values())), world)
        settings = DRAINED
        members: ClassVar = [
            Member(name, parse(text), QuerySemantics(DRAINED.report, "istream", "bag"), None, 1 << 40, {"id": name})
            for name, text in texts.items()
        ]

        def member(self, name: str) -> Member:
            return next(member for member in self.members if member.id == name)

    some: Any = Together()
    return Run(some, [next(iter(texts))], Cut("1"), folder, patch)


def test_a_query_that_comes_has_a_second_id_for_its_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"all": asked("?who", "GRAPH ?s { ?who :p ?x }"), "one": asked("?x", f"GRAPH ?s {{ {A} :p ?x }}")}
    there = together(texts, stream(B, B, C, A, B, C), tmp_path, monkeypatch)
    for number, chunk in enumerate(there.source.chunks(Cut("1"))):
        if number == 2:
            there.change(come=["one"])
        there.batch(number, chunk)
        there.driver = there.opened()
    assert sum(there.lines_of("one").values()) == 1, "A comes once, and B is another term"
    assert values_of(there.lines_of("all"), B) == 3


def test_another_query_comes_once_the_windows_have_moved_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terms that the windows held when the second id was given are in files that are deleted by then."""
    last = "<http://a.org/n19>"
    texts = {name: asked("?x", f"GRAPH ?s {{ {who} :p ?x }}") for name, who in (("all", "?who"), ("one", A), ("two", last))}
    there = together(texts, stream(B, B, C, A, *(f"<http://a.org/n{i}>" for i in range(20))), tmp_path, monkeypatch)
    for number, chunk in enumerate(there.source.chunks(Cut("1"))):
        if number in (2, 20):
            there.change(come=["one" if number == 2 else "two"])
        there.batch(number, chunk)
    assert [sum(there.lines_of(name).values()) for name in ("one", "two")] == [1, 1]


# ------------------------------------------------------------------ by lot
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 8, 11, 14, 17, 20, 29, 31])
def test_answers_do_not_depend_on_the_key_or_on_collisions(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under ids of few bits, of which many are equal, and under two keys: the same answers, which are those of ``verify``."""
    monkeypatch.setattr("cqels_opt.rdf.ids.HASH_BITS", 5)
    rng, case = random.Random(seed), make(seed)
    found, displaced = [], 0
    for number in range(2):
        monkeypatch.setenv("CQELS_OPT_TERM_KEY", rng.randbytes(16).hex())
        registered = register(case.query(), case.world, tmp_path / str(number), case.settings)
        outcome = registered.run(Cut("5", split=1 + seed % 2, parts=1 + seed % 3))
        displaced += len(outcome.driver.scheme.displaced)
        found.append(outcome.answers)
    assert displaced
    verdict = registered.judged(found[0])
    assert verdict.equal, verdict.text()
    assert found[0] == found[1]
