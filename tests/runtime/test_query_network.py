"""Networks of queries: the graphs of one are the elements of another's stream, whatever the batches, and after any restart."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, Registered, Settings, World, register

from cqels_opt.compiler.block_builder import PAGE
from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_migration import patterns_of, windows_of
from cqels_opt.runtime.query_network import network
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.state.run_identity import Identity
from cqels_opt.verify import Answers, Element, Inputs, compare, evaluate
from cqels_opt.verify.forms import TRIPLE
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.intervals import FOREVER

EX = "http://ex.org/"
FIRST = (
    "PREFIX : <http://ex.org/> CONSTRUCT { ?a :met [ :whom ?b ; :at ?x ] } "
    "FROM NAMED :S [RANGE 2 s] AS ?w { GRAPH ?w { ?a :at ?x . ?b :at ?x FILTER(?a != ?b) } }"
)
SECOND = (
    "PREFIX : <http://ex.org/> CONSTRUCT { ?x :had ?n } FROM NAMED :pairs [RANGE 3 s] AS ?p "
    "{ { SELECT ?x (COUNT(?a) AS ?n) { GRAPH ?p { ?a :met ?m . ?m :at ?x } } GROUP BY ?x } }"
)
THIRD = (
    "PREFIX : <http://ex.org/> SELECT ?x ?n ?a FROM NAMED :crowds [TRIPLES 2] AS ?c FROM NAMED :S [NOW] AS ?w "
    "{ GRAPH ?c { ?x :had ?n } GRAPH ?w { ?a :at ?x } }"
)


class Job:
    """Several queries in one driver. The first one's world has the streams."""

    def __init__(self, texts: Sequence[str], world: World, folder: Path, operators: Sequence[str]) -> None:
        self.queries = [
            register(text, World(dict.fromkeys(_streams(text), ()), world.default), folder / f"q{i}", Settings(operator))
            for i, (text, operator) in enumerate(zip(texts, operators))
        ]
        outputs = (f"<{EX}pairs>", f"<{EX}crowds>", None)
        self.programs = [replace(q.program, id=f"q{i}", output=outputs[i]) for i, q in enumerate(self.queries)]
        outside = replace(self.queries[0].program, windows=tuple(w for w in self._windows() if w.stream == f"<{EX}S>"))
        self.source = replace(self.queries[0], world=world, program=outside)
        self.folder = folder

    def _windows(self) -> list[Any]:
        return [w for program in self.programs for w in program.windows]

    @property
    def pages(self) -> list[SlotFile]:
        """The terms that registration made for each query."""
        paths = [query.folder / "static" / PAGE for query in self.queries]
        return [SlotFile("terms", str(path), greatest=int(FOREVER)) for path in paths if path.exists()]

    @property
    def identity(self) -> Identity:
        return Identity(
            {p.id: [q.query.text, p.operator] for p, q in zip(self.programs, self.queries)},
            {p.id: windows_of(p) for p in self.programs},
            patterns_of(self.programs),
            feeding=tuple(network(self.programs).feeds),
        )

    def driver(self, how: Cut, state: Path, sink: LocalSink) -> Driver:
        made = self.source.driver(how, folder=self.folder / "unused" / str(self.source.runs))
        options = DriverOptions(named=True, plan=made.options.plan, parts=how.parts, tiers=how.tiers, continue_changed=True)
        return Driver(state, self.programs, LocalRunner(how.split), sink, made.frontier, options, self.identity, pages=self.pages)

    def run(self, how: Cut, kill: random.Random | None = None) -> list[dict[str, Any]]:
        state, sink = self.folder / f"state-{how.batch}-{how.split}-{kill is not None}", LocalSink()
        driver = self.driver(how, state, sink)
        for number, rows in enumerate(self.source.chunks(how)):
            if kill is not None and kill.random() < 0.5:
                if kill.random() < 0.5:
                    driver.batch(number, rows)  # done, but Spark has not noted it
                driver = self.driver(how, state, sink)
            driver.batch(number, rows)
        return [json.loads(line) for line in sink.lines]


def _streams(text: str) -> list[str]:
    return [name for name in (f"{EX}S", f"{EX}pairs", f"{EX}crowds") if f":{name.removeprefix(EX)} [" in text]


def expected(queries: Sequence[Registered], elements: list[Element]) -> list[Answers]:
    """By definition: each query over the streams, and over the graphs of those before it."""
    streams: dict[str, list[Element]] = {f"{EX}S": elements}
    found = []
    for query in queries:
        options = replace(query.settings.options, until=max(e.t for e in elements))
        answers = evaluate(query.query, Inputs(streams, query.world.default), options)
        found.append(answers)
        if query.query.form is not None:
            streams[f"{EX}{('pairs', 'crowds')[len(found) - 1]}"] = graphs(answers)
    return found


def graphs(answers: Answers) -> list[Element]:
    triples: dict[int, list[tuple[str, str, str]]] = {}
    for time, _, row in answers:
        cells = dict(row)
        triples.setdefault(time, []).append((cells[TRIPLE[0]], cells[TRIPLE[1]], cells[TRIPLE[2]]))
    return [Element(time, tuple(some)) for time, some in sorted(triples.items())]


def world(seed: int) -> World:
    rng, time, elements = random.Random(seed), 0, []
    for _ in range(16):
        time += rng.choice([0, 250, 500, 1000])
        elements.append(Element(time, ((f"<{EX}{rng.choice('abc')}>", f"<{EX}at>", f"<{EX}{rng.choice('xy')}>"),)))
    return World({f"{EX}S": [elements]})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_three_in_a_row(seed: int, tmp_path: Path) -> None:
    there, rng = world(seed), random.Random(seed)
    operators = [rng.choice(["istream", "dstream", "rstream"]) for _ in range(3)]
    job = Job([FIRST, SECOND, THIRD], there, tmp_path, operators)
    elements = list(there.streams[f"{EX}S"][0])
    whole = job.run(Cut("100"))
    for place, (query, want) in enumerate(zip(job.queries, expected(job.queries, elements))):
        lines = [json.dumps({k: v for k, v in line.items() if k != "query"}) for line in whole if line["query"] == f"q{place}"]
        assert not compare(want, query.answers(lines)), (place, operators)
    key = [json.dumps(line) for line in whole]
    for how, kill in ((Cut("1"), None), (Cut("3", split=2, parts=2), None), (Cut("2", "random"), random.Random(seed))):
        assert sorted(json.dumps(line) for line in job.run(how, kill)) == sorted(key)
    assert {line["query"] for line in whole} >= {"q0"}


OTHER = (
    "PREFIX : <http://ex.org/> SELECT ?x (COUNT(?a) AS ?k) FROM NAMED :crowds [TRIPLES 2] AS ?c FROM NAMED :S [NOW] AS ?w "
    "{ GRAPH ?c { ?x :had ?n } OPTIONAL { GRAPH ?w { ?a :at ?x } } } GROUP BY ?x"
)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_query_that_no_other_reads_may_change(seed: int, tmp_path: Path) -> None:
    """From then on its answers are those that it would have given all along, and the others' what they were."""
    there, rng = world(seed), random.Random(seed)
    operators = [rng.choice(["istream", "dstream", "rstream"]) for _ in range(3)]
    jobs = [Job([FIRST, SECOND, last], there, tmp_path / str(i), operators) for i, last in enumerate((THIRD, OTHER))]
    how = Cut("3", split=seed % 2 + 1, parts=seed % 2 + 1)
    chunks = jobs[0].source.chunks(how)

    def lines(change: int) -> list[list[str]]:
        """Of each batch, where the second job takes over from the first one with a batch."""
        sink, found = LocalSink(), list[list[str]]()
        for number, rows in enumerate(chunks):
            if number in (0, change):
                driver = jobs[number >= change].driver(how, tmp_path / f"state{change}", sink)
            before = len(sink.lines)
            driver.batch(number, rows)
            found.append(sorted(sink.lines[before:]))
        return found

    change = rng.randrange(1, 4)
    assert lines(change) == lines(len(chunks))[:change] + lines(0)[change:]


def test_a_query_that_others_read_may_not(tmp_path: Path) -> None:
    there, how, state = world(1), Cut("3"), tmp_path / "state"
    operators = ["istream", "rstream", "istream"]
    driver = (job := Job([FIRST, SECOND, THIRD], there, tmp_path / "a", operators)).driver(how, state, LocalSink())
    driver.batch(0, job.source.chunks(how)[0])
    other = Job([FIRST, SECOND.replace("COUNT(?a)", "COUNT(?m)"), THIRD], there, tmp_path / "b", operators)
    with pytest.raises(CheckpointError, match="the query q1 differs, whose graphs others read; use another folder"):
        other.driver(how, state, LocalSink())


def test_the_order_in_which_queries_are_given_does_not_matter(tmp_path: Path) -> None:
    job = Job([FIRST, SECOND, THIRD], world(1), tmp_path, ["istream", "rstream", "istream"])
    found = network([job.programs[i] for i in (2, 0, 1)])
    assert [[p.id for p in stage] for stage in found.stages] == [["q0"], ["q1"], ["q2"]]
    assert found.feeds == {"q0": f"<{EX}pairs>", "q1": f"<{EX}crowds>"}


def test_what_is_no_network(tmp_path: Path) -> None:
    first, second, third = Job([FIRST, SECOND, THIRD], world(1), tmp_path, ["istream"] * 3).programs
    window = replace(first.windows[0], stream=f"<{EX}crowds>")
    with pytest.raises(InputError, match="the queries q0, q1 wait for each other: a network has no circles"):
        network([replace(first, windows=(window,)), second])
    with pytest.raises(InputError, match=r"the queries q0 and q2 both make the stream <http://ex.org/pairs>"):
        network([first, second, replace(first, id="q2")])
    with pytest.raises(
        InputError, match=r"the query q2 makes the stream <http://ex.org/S>, which others read: it must be a CONSTRUCT"
    ):
        network([first, replace(third, output=f"<{EX}S>")])
