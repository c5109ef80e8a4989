"""Random different queries over one stream, many of which read the same pattern in the same window, as a run without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from local_runs import Cut, World, register

from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.verify import Element

EX = "http://ex.org/"


def elements(number: int, seed: int = 3) -> list[Element]:
    """People at a place, or with a value; an element each 250 ms."""
    rng = random.Random(seed)
    triples = [
        (f"<{EX}p{rng.randrange(3)}>", *rng.choice([(f"<{EX}at>", f"<{EX}x>"), (f"<{EX}val>", '"1"')])) for _ in range(number)
    ]
    return [Element(250 * i, (triple,)) for i, triple in enumerate(triples)]


def different(rng: random.Random, number: int) -> list[str]:
    """Queries whose windows, patterns and operators differ; many have a pattern and a window in common, under other names."""
    found = []
    for _ in range(number):
        first, second = (f":S [{rng.choice(['NOW', 'RANGE 1s', 'RANGE 4s', 'TRIPLES 3'])}]" for _ in range(2))
        select = rng.choice(["SELECT ?p ?q ?x", "SELECT DISTINCT ?x", "SELECT ?x (COUNT(*) AS ?n)"])
        group, name = " GROUP BY ?x" if "COUNT" in select else "", rng.choice(["w", "v"])
        body = f"GRAPH ?{name} {{ ?p :at ?x }} " + rng.choice(["GRAPH ?u { ?q :at ?x }", "GRAPH ?u { ?p :val ?q }"])
        found.append(f"PREFIX : <{EX}> {select} FROM NAMED {first} AS ?{name} FROM NAMED {second} AS ?u {{ {body} }}{group}")
    return found


class DifferentRun:
    """A run of queries ``d0``, ``d1``, … over one checkpoint, of which those in ``started`` are there from the start."""

    def __init__(self, texts: Sequence[str], started: int, how: Cut, folder: Path, number: int = 60) -> None:
        self.texts, self.started, self.how, self.folder = texts, started, how, folder
        self.world = World({f"{EX}S": [elements(number)]})
        self.source = register(texts[0], self.world, folder / "source")
        self.programs = Programs(self.source.folder / "store", folder / "queries")
        self.sink = LocalSink()
        self.driver = self.opened()

    @property
    def chunks(self) -> Sequence[Any]:
        """The rows of each batch."""
        return self.source.chunks(self.how)

    def member(self, i: int) -> Any:
        """A query by its number."""
        return member_of(record_of(self.texts[i], f"d{i}"))

    def opened(self) -> Driver:
        """A driver over the checkpoint, new or not."""
        made = self.source.driver(self.how, folder=self.folder / "unused" / str(self.source.runs))
        there = QueryCatalog([self.member(i) for i in range(self.started)], self.folder / "state", self.programs)
        options, runner = replace(made.options, named=True), LocalRunner(self.how.split)
        return Driver(self.folder / "state", there.programs(), runner, self.sink, made.frontier, options, catalog=there)

    def change(self, come: Sequence[int] = (), go: Sequence[int] = ()) -> None:
        """Queries come and go with the next batch."""
        assert self.driver.catalog is not None
        if come:
            self.driver.catalog.add([self.member(i) for i in come])
        for i in go:
            self.driver.catalog.remove(f"d{i}")

    def lines_of(self, i: int) -> Counter[str]:
        """The answers of a query, without its name."""
        said = f', "query": "d{i}"'
        return Counter(line.replace(said, "", 1) for line in self.sink.lines if said in line)

    def alone(self, i: int) -> Counter[str]:
        """The answers that a query has alone."""
        return Counter(register(self.texts[i], self.world, self.folder / f"alone{i}").run(Cut("7")).lines)
