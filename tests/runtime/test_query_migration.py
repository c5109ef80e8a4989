"""A changed query over the same windows continues from a checkpoint: its answers are those that it would have given all along."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, Registered, Settings, World, register

from cqels_opt.errors import CheckpointError
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_migration import patterns_of, windows_of
from cqels_opt.state.run_identity import Identity
from cqels_opt.verify import Element

EX = "http://ex.org/"
HEAD = """PREFIX : <http://ex.org/>
SELECT {what} FROM NAMED :S [{window}] AS ?u FROM NAMED :T [{other}] AS ?z
WHERE {{ {where} }}"""
BODIES = [
    ("?a ?b ?x", "GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x }"),
    ("?a ?n", "GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x } ?a :knows ?b . ?b :name ?n"),
    ("?a", "GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?y } FILTER(?x = ?y && ?a != ?b)"),
    ("?x (COUNT(?b) AS ?k) (MAX(?b) AS ?m)", "GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x }"),
    ("?a ?b", "GRAPH ?u { ?a :at ?x } OPTIONAL { GRAPH ?z { ?b :at ?x } }"),
    ("DISTINCT ?x ?r", "GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x } BIND(CONCAT(STR(?x), STR(?b)) AS ?r)"),
    ("?a ?x", "GRAPH ?u { ?a :at ?x } FILTER NOT EXISTS { GRAPH ?z { ?b :at ?x } }"),
    ("?a ?x ?y", "GRAPH ?u { ?a :at ?x } { SELECT ?y WHERE { GRAPH ?z { ?b :at ?y } } }"),
]
WINDOWS = [
    ("RANGE 1 s", "RANGE 2 s SLIDE 1 s"),
    ("NOW", "TRIPLES 3"),
    ("RANGE 1500 ms TUMBLING", "RANGE 1 s"),
    ("ALL", "TRIPLES 5"),
]
AGGREGATE = 3


def world(seed: int) -> World:
    rng = random.Random(seed)

    def stream() -> list[Element]:
        t, found = 1000, []
        for _ in range(70):
            t += rng.choice([0, 40, 100, 300])
            found.append(Element(t, ((f"<{EX}p{rng.randrange(6)}>", f"<{EX}at>", f"<{EX}x{rng.randrange(4)}>"),)))
        return found

    static = [(f"<{EX}p{i}>", f"<{EX}name>", f'"Name {i}"') for i in range(6)]
    static += [(f"<{EX}p{rng.randrange(6)}>", f"<{EX}knows>", f"<{EX}p{rng.randrange(6)}>") for _ in range(12)]
    return World({EX + "S": [stream()], EX + "T": [stream()]}, list(dict.fromkeys(static)))


def text(body: int, windows: tuple[str, str] = WINDOWS[0]) -> str:
    what, where = BODIES[body]
    by = " GROUP BY ?x" if body == AGGREGATE else ""
    return HEAD.format(what=what, where=where, window=windows[0], other=windows[1]) + by


def identity(query: Registered) -> Identity:
    return Identity({"q": query.query.text}, windows_of(query.program), patterns_of([query.program]))


class Recorder(LocalSink):
    """Keeps lines by batch; a batch that runs again replaces its own."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[int, Counter[str]] = {}

    def put(self, batch: int, *given: Any) -> dict[str, int]:
        before = len(self.lines)
        lengths = super().put(batch, *given)
        self.of[batch] = Counter(self.lines[before:])
        return lengths


def go(query: Registered, how: Cut, folder: Path, sink: Recorder) -> Driver:
    return query.driver(how, folder, LocalRunner(how.split), sink, identity(query), changed=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_its_answers_are_those_it_would_have_given(seed: int, tmp_path: Path) -> None:
    """Queries change one after the other at random batches, some at once again; runs die and start anew in between."""
    rng = random.Random(seed)
    windows = WINDOWS[seed % len(WINDOWS)]
    settings = Settings(rng.choice(["istream", "dstream", "rstream"]))
    how = Cut(rng.choice(["7", "12", "500ms"]), rng.choice(["adaptive", "first"]), rng.choice([1, 2]), rng.choice([None, 3]))
    bodies = rng.sample(range(len(BODIES)), 3)
    there = world(seed)
    queries = [register(text(b, windows), there, tmp_path / f"q{b}", settings) for b in bodies]
    whole = []
    for query in queries:
        sink = Recorder()
        driver = query.driver(how, tmp_path / f"whole-{len(whole)}", sink=sink)
        for number, rows in enumerate(query.chunks(how)):
            driver.batch(number, rows)
        whole.append(sink.of)
    sink, current = Recorder(), 0
    driver = go(queries[0], how, tmp_path / "state", sink)
    for number, rows in enumerate(queries[0].chunks(how)):
        if rng.random() < 0.3:
            current = rng.randrange(3)
            driver = go(queries[current], how, tmp_path / "state", sink)
        driver.batch(number, rows)
        assert sink.of[number] == whole[current][number]
        if rng.random() < 0.2:  # killed before Spark had noted the batch; the query may have changed with that, too
            current = rng.randrange(3)
            driver = go(queries[current], how, tmp_path / "state", sink)
            driver.batch(number, rows)
            assert sink.of[number] == whole[current][number]


def begun(tmp_path: Path, body: int = 0) -> tuple[Registered, Path]:
    query = register(text(body), world(1), tmp_path / "q")
    driver = query.driver(Cut("7"), tmp_path / "state", identity=identity(query))
    for number, rows in enumerate(query.chunks(Cut("7"))[:3]):
        driver.batch(number, rows)
    return query, tmp_path / "state"


def refusal(tmp_path: Path, state: Path, other: str, changed: bool = True) -> str:
    query = register(other, world(1), tmp_path / "other")
    with pytest.raises(CheckpointError) as error:
        query.driver(Cut("7"), state, identity=identity(query), changed=changed)
    return str(error.value)


def test_only_where_its_user_says_so(tmp_path: Path) -> None:
    _, state = begun(tmp_path)
    said = refusal(tmp_path, state, text(1), changed=False)
    assert "continue_changed=True continues with the changed one" in said


@pytest.mark.parametrize(
    ("was", "now"),
    [("RANGE 1 s", "RANGE 2 s"), ("RANGE 1 s", "NOW"), ("SLIDE 1 s", "SLIDE 2 s"), (":S", ":T"), ("AS ?z", "AS ?z2")],
)
def test_other_windows(was: str, now: str, tmp_path: Path) -> None:
    """They would have looked at other instants, and kept elements for another time. Names are free."""
    _, state = begun(tmp_path)
    other = text(0).replace(was, now).replace("GRAPH ?z {", "GRAPH ?z2 {" if was == "AS ?z" else "GRAPH ?z {")
    if was == "AS ?z":
        query = register(other, world(1), tmp_path / "other")
        assert query.driver(Cut("7"), state, identity=identity(query), changed=True).state.batch == 2
    else:
        assert "its query differs, and has other windows" in refusal(tmp_path, state, other)


def test_a_pattern_of_which_nothing_was_kept(tmp_path: Path) -> None:
    _, state = begun(tmp_path)
    other = text(0).replace("?a :at ?x", "?a :was ?x")
    assert "nothing was kept for u" in refusal(tmp_path, state, other)


def test_what_is_not_kept_any_more(tmp_path: Path) -> None:
    """A pattern that the changed query left out has no slots of the batches since then: there is no way back."""
    wide = text(0).replace("?b :at ?x", "?b :at ?x . ?b :was ?y")
    query = register(wide, world(1), tmp_path / "q")
    chunks = query.chunks(Cut("7"))
    query.driver(Cut("7"), tmp_path / "state", identity=identity(query)).batch(0, chunks[0])
    narrow = register(text(0), world(1), tmp_path / "narrow")
    narrow.driver(Cut("7"), tmp_path / "state", identity=identity(narrow), changed=True)
    back = query.driver(Cut("7"), tmp_path / "state", identity=identity(query), changed=True)  # nothing has happened yet
    assert back.state.batch == 0
    driver = narrow.driver(Cut("7"), tmp_path / "state", identity=identity(narrow), changed=True)  # has the checkpoint again
    driver.batch(1, chunks[1])
    assert "nothing was kept for z#2" in refusal(tmp_path, tmp_path / "state", wide)


def leftovers(state: Path, driver: Driver) -> Sequence[str]:
    named = {f.path for f in driver.state.files}
    return [str(path) for path in (state / "results").iterdir() if f"results/{path.name}" not in named]


def test_the_result_slots_of_the_query_before_go(tmp_path: Path) -> None:
    _, state = begun(tmp_path)
    query = register(text(4), world(1), tmp_path / "other")
    driver = query.driver(Cut("7"), state, identity=identity(query), changed=True)
    chunks = query.chunks(Cut("7"))
    for number in range(3, 10):
        driver.batch(number, chunks[number])
    numbers = [int(path.rsplit("/", 1)[1].removeprefix("taken-")[:8]) for path in leftovers(state, driver)]
    assert min(numbers, default=9) >= 3, (
        "the query before ran in batches 0 to 2; files of later ones may have been merged just now"
    )
