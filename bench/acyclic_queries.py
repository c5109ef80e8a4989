"""Random acyclic queries: a stream pattern joined with static patterns along a random tree of variables, over skewed values.

Each relation shares one variable with one relation before it (so the query is Berge-acyclic) and adds another one. Values follow Zipf's
law. In some relations the frequent values of the shared variable are those that are frequent in the relation before it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.local import Prepared, load, prepare, write_elements
from cqels_opt.planner.view_candidates import redesigned
from cqels_opt.query.parser import parse
from cqels_opt.rdf.static import StaticSource
from cqels_opt.verify import Answers, Element, Inputs, Options, judge
from cqels_opt.windows.batch_size import BatchSize

EX = "http://example.org/"
STREAM = EX + "stream"
ATTEMPTS = 8
MOST_ANSWERS = 20_000
MOST_ROWS = 100_000
"""The most rows that any operator of a left-deep order without cross products gives, so that every order can run."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AcyclicQuery:
    """A query and its data. Relation ``i`` has the distinct pairs ``tables[i]`` of two ``variables[i]``; relation 0 is the stream's.

    Each of its ``batches`` micro-batches has all rows of relation 0 that are new in it, at one time.
    """

    seed: int
    skew: float
    variables: tuple[tuple[int, int], ...]
    tables: tuple[tuple[Ints, Ints], ...]
    batches: int

    @property
    def text(self) -> str:
        """The query: all variables of all patterns."""
        patterns = [f"?x{s} <{EX}p{i}> ?x{o} ." for i, (s, o) in enumerate(self.variables)]
        return (
            f"SELECT * FROM NAMED <{STREAM}> [NOW] AS ?now\nWHERE {{\n"
            f"  GRAPH ?now {{ {patterns[0]} }}\n" + "".join(f"  {pattern}\n" for pattern in patterns[1:]) + "}"
        )

    @property
    def triples(self) -> list[tuple[str, str, str]]:
        """The static data."""
        return [triple for number in range(1, len(self.tables)) for triple in self._triples(number)]

    @property
    def elements(self) -> list[Element]:
        """The stream: each micro-batch has one time, and its elements one triple."""
        found, rows = [], self._triples(0)
        for batch in range(self.batches):
            share = rows[len(rows) * batch // self.batches : len(rows) * (batch + 1) // self.batches]
            found += [Element(1000 * (batch + 1), (triple,)) for triple in share]
        return found

    def _triples(self, number: int) -> list[tuple[str, str, str]]:
        names = [f"<{EX}v{variable}/{{}}>" for variable in self.variables[number]]
        columns = zip(*(column.tolist() for column in self.tables[number]))
        return [(names[0].format(s), f"<{EX}p{number}>", names[1].format(o)) for s, o in columns]

    def prepared(self, folder: Path) -> Prepared:
        """The query compiled over its data without sub-results, with the micro-batches of the stream."""
        folder.mkdir(parents=True)
        (folder / "static.nt").write_text("".join(f"{' '.join(t)} .\n" for t in self.triples), encoding="utf-8")
        write_elements(folder / "stream.ndjson", self.elements)
        store = load(folder / "store", [StaticSource(folder / "static.nt")])
        size = BatchSize(count=len(self.tables[0][0]) // self.batches)
        found = prepare("q", self.text, store, {STREAM: folder / "stream.ndjson"}, folder / "query", size)
        blocks = tuple(redesigned(b, b.parts) if b.parts else b for b in found.program.blocks)
        return replace(found, program=replace(found.program, blocks=blocks))

    def differences(self, got: Answers) -> int:
        """In how many rows answers differ from the independent evaluation."""
        verdict = judge(parse(self.text), Inputs({STREAM: self.elements}, self.triples), Options(), got)
        return len(verdict.differences)


def acyclic_query(seed: int, *, delta: int = 600, batches: int = 3, most: int = 10) -> AcyclicQuery:
    """A random query of 3 to ``most`` relations, with ``delta`` elements per micro-batch; it has answers, but not too many.

    Data that do not fit are drawn again, fewer of them if they gave too many rows, and after some attempts for another query.
    """
    rng = np.random.default_rng(seed)
    while True:
        relations, skew, share = int(rng.integers(3, most + 1)), float(rng.uniform(0, 2)), 1.0
        for _ in range(ATTEMPTS):
            found = _random(rng, seed, relations, skew, share, delta, batches)
            answers = joined_rows(found, range(relations))
            if answers > MOST_ANSWERS or max(joined_rows(found, some) for some in prefixes(found)) > MOST_ROWS:
                share *= 0.7
            elif answers:
                return found


def _random(
    rng: np.random.Generator, seed: int, relations: int, skew: float, share: float, delta: int, batches: int
) -> AcyclicQuery:
    variables = [(0, 1)]
    for i in range(1, relations):
        shared = int(rng.choice(variables[int(rng.integers(i))]))
        variables.append((shared, i + 1) if rng.random() < 0.5 else (i + 1, shared))
    domain = [int(10 ** rng.uniform(2, 3.5)) for _ in range(relations + 1)]
    ranks = [rng.permutation(size) for size in domain]  # of the values of each variable, from the most frequent one on
    tables = []
    for i, pair in enumerate(variables):
        rows = delta * batches if i == 0 else max(10, int(share * min(domain[v] for v in pair) * 10 ** rng.uniform(-0.5, 0.6)))
        columns = []
        for variable in pair:
            values = ranks[variable] if rng.random() < 0.5 else rng.permutation(domain[variable])
            chances = np.arange(1, len(values) + 1) ** -skew
            columns.append(values[rng.choice(len(values), rows, p=chances / chances.sum())])
        if i:
            columns = [*np.unique(np.stack(columns), axis=1)]
        tables.append((columns[0].astype(np.int64), columns[1].astype(np.int64)))
    return AcyclicQuery(seed, skew, tuple(variables), tuple(tables), batches)


def joined_rows(query: AcyclicQuery, joined: Sequence[int]) -> float:
    """The number of rows of the join of some connected relations, relation 0 first: by counts of values from the leaves to the root."""
    weights = {i: np.ones(len(query.tables[i][0])) for i in joined}
    for i in sorted(joined, reverse=True)[:-1]:
        shared = min(query.variables[i])
        parent = max(shared - 1, 0)  # the relation that has added the variable
        own, of_parent = (query.tables[j][query.variables[j].index(shared)] for j in (i, parent))
        counts = np.bincount(own, weights[i], minlength=int(max(own.max(), of_parent.max())) + 1)
        weights[parent] = weights[parent] * counts[of_parent]
    return float(weights[0].sum())


def prefixes(query: AcyclicQuery) -> list[tuple[int, ...]]:
    """The sets of relations, in ascending order, that left-deep orders without cross products join on their way."""
    found: set[tuple[int, ...]] = {(0,)}
    fresh = found
    while fresh:
        bound = {some: {v for i in some for v in query.variables[i]} for some in fresh}
        more = ((some, i) for some in fresh for i, pair in enumerate(query.variables) if i not in some and bound[some] & {*pair})
        fresh = {tuple(sorted((*some, i))) for some, i in more} - found
        found = found | fresh
    return sorted(found)
