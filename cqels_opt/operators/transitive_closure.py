"""Paths of repeated steps over rows with intervals: who reaches whom, and when (SPARQL 1.1 §18.4, ALP; a semi-naive fixpoint).

A path is there while all its steps are, so an interval of a pair of ends is the intersection along a path, and all of a pair's intervals
are the union over its paths. Each round prolongs by one step what the round before found, and keeps of it the parts of
intervals in which the pair was not known yet; it ends, as there are finitely many pairs and moments. Known pairs lie in a few
indexes of growing size, so that a round does not sort what earlier ones found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cqels_opt.errors import CqelsOptError
from cqels_opt.operators.compiled_query import ClosureNode, Tree
from cqels_opt.operators.interval_join import Indexed, covered, disjoint
from cqels_opt.operators.rows import Ints, Rows, concat, empty
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.storage.compaction_policy import runs_to_merge

SEED, NODE = "seed", "node"


class PathsTooManyError(CqelsOptError):
    """A path has more pairs of ends than was allowed."""


def prolonged(rows: Rows, steps: Indexed) -> Rows:
    """Pairs one step longer. ``steps`` has the columns ``here`` and ``there``, and perhaps the graph's; ``rows`` SEED, NODE, and it."""
    on = [v for v in steps.names if v in rows.columns]
    found = [part for part in steps.probe(rows, on) if len(part)]
    longer = [
        Rows(
            {**{v: c for v, c in part.columns.items() if v not in (NODE, "there")}, NODE: part.columns["there"]},
            part.start,
            part.end,
            part.n,
        )
        for part in found
    ]
    return concat([empty([SEED, NODE]), *longer])


def steps_of(rows: Rows, here: str, there: str, graph: str | None) -> Indexed:
    """Rows of a step, indexed by where it begins (and the graph), under the names that :func:`prolonged` knows."""
    columns = {NODE: rows.columns[here], "there": rows.columns[there]}
    if graph is not None:
        columns[graph] = rows.columns[graph]
    return Indexed.of_rows(disjoint(Rows(columns, rows.start, rows.end, rows.n)))


def reached(first: Rows, follow: Callable[[Rows], Rows], known: bool, many: bool, most: int | None = None) -> Rows:
    """All pairs that ``follow``, which prolongs pairs by a step, finds from the first ones, disjoint in time.

    ``known``: the first pairs are paths themselves; with ``many`` steps are repeated. PathsTooManyError beyond ``most`` rows.
    """
    first = disjoint(first)
    found = _Known()
    if known:
        found.add(first)
    last = first
    while len(last):
        last = found.news(disjoint(follow(last)))
        found.add(last)
        if most is not None and found.size > most:
            raise PathsTooManyError(f"more than {most} pairs of ends")
        if not many:
            break
    return found.rows()


class _Known:
    """Pairs that are known, in parts of which each has less than half the rows of the one before."""

    def __init__(self) -> None:
        self.parts: list[Rows] = []
        self.indexed: list[Indexed | None] = []
        self.size = 0

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        self.size += len(rows)
        some = runs_to_merge([len(part) for part in self.parts], arriving=len(rows))
        assert some is not None  # rows arrive
        self.parts[some] = [concat([*self.parts[some], rows])]
        self.indexed[some] = [None]

    def news(self, rows: Rows) -> Rows:
        """Of rows the parts of their intervals in which they are not known."""
        for place, part in enumerate(self.parts):
            if not len(rows):
                break
            side = self.indexed[place]
            if side is None:
                side = self.indexed[place] = Indexed.of_rows(part)
            rows = _without(rows, side)
        return rows

    def rows(self) -> Rows:
        return concat([empty([SEED, NODE]), *self.parts])


def _without(rows: Rows, side: Indexed) -> Rows:
    on: Sequence[str] = [v for v in side.names if v in rows.columns]
    met = list(side.probe(rows.with_column("#owner", np.arange(len(rows))), on))
    if not met:
        return rows
    both = concat(met)
    return covered(rows, both.columns["#owner"], both.start, both.end)[1]


def closed(
    node: ClosureNode,
    keys: KeyFilter,
    rows_of: Callable[[Tree, KeyFilter], Rows],
    always: tuple[int, int],
    static: bool,
    most: int | None,
) -> Rows:
    """The pairs of a path that have one of the keys, perhaps with others; those that begin, or end, at constants if there are any.

    ``rows_of`` gives the rows of an input that have some keys. ``static``: the steps are looked up round by round from what is asked
    for; else they are read once. ``always`` is the interval of what no row of an input limits.
    """
    seeds, backwards = _seeds(node, keys)
    here, there = (node.there, node.here) if backwards else (node.here, node.there)

    def follow(rows: Rows) -> Rows:
        on = {NODE: here} | ({node.graph: node.graph} if node.graph is not None and node.graph in rows.columns else {})
        wanted = KeyFilter.of(
            Rows({own: rows.columns[v] for v, own in on.items()}, rows.start, rows.end, rows.n), list(on.values())
        )
        return prolonged(rows, steps_of(rows_of(node.edges, wanted), here, there, node.graph))

    if seeds is None or not static:
        steps = steps_of(rows_of(node.edges, EVERY), here, there, node.graph)

        def follow(rows: Rows) -> Rows:
            return prolonged(rows, steps)

    if node.nodes is not None:
        found = reached(_zero(node, seeds, rows_of), follow, True, node.many, most)
    elif seeds is not None:
        start, end = (np.full(len(seeds), at, np.int64) for at in always)
        found = reached(
            Rows({SEED: seeds, NODE: seeds}, start, end, np.ones(len(seeds), np.int64)), follow, False, node.many, most
        )
    else:
        edges = rows_of(node.edges, EVERY)
        graph = {} if node.graph is None else {node.graph: edges.columns[node.graph]}
        columns = {**graph, SEED: edges.columns[here], NODE: edges.columns[there]}
        found = reached(Rows(columns, edges.start, edges.end, edges.n), follow, True, node.many, most)
    return _named(node, found, backwards)


def _seeds(node: ClosureNode, keys: KeyFilter) -> tuple[Ints | None, bool]:
    """Where paths are looked for from (None: everywhere), and whether these are their ends."""
    for at, backwards in ((node.start, False), (node.end, True)):
        if isinstance(at, int):
            return np.array([at], np.int64), backwards
    if keys.all or keys.parts > 1:
        return None, False
    known = {v: np.unique(column) for v, column in zip(keys.variables, keys.columns)}
    found = [(known[str(at)], backwards) for at, backwards in ((node.start, False), (node.end, True)) if at in known]
    return min(found, key=lambda one: len(one[0]), default=(None, False))


def _zero(node: ClosureNode, seeds: Ints | None, rows_of: Callable[[Tree, KeyFilter], Rows]) -> Rows:
    """The paths of length zero."""
    assert node.nodes is not None
    if isinstance(node.start, int) or isinstance(node.end, int):
        assert seeds is not None
        rows = rows_of(node.nodes, EVERY)
        at = np.full(len(rows), seeds[0])
    else:
        rows = rows_of(node.nodes, EVERY if seeds is None else KeyFilter((node.here,), (seeds,), len(seeds) > 0))
        at = rows.columns[node.here]
    graph = {} if node.graph is None else {node.graph: rows.columns[node.graph]}
    return Rows({**graph, SEED: at, NODE: at}, rows.start, rows.end, rows.n)


def _named(node: ClosureNode, found: Rows, backwards: bool) -> Rows:
    """Pairs under the names of their ends; where an end is a constant, or both are one variable, those that have it so."""
    start, end = (found.columns[v] for v in ((NODE, SEED) if backwards else (SEED, NODE)))
    keep = np.ones(len(found), bool)
    for at, column in ((node.start, start), (node.end, end)):
        if isinstance(at, int):
            keep &= column == at
    if node.start == node.end:
        keep &= start == end
    columns = {} if node.graph is None else {node.graph: found.columns.get(node.graph, np.zeros(len(found), np.int64))}
    if node.graph in (node.start, node.end):
        keep &= np.logical_and.reduce(
            [columns[str(node.graph)] == c for at, c in ((node.start, start), (node.end, end)) if at == node.graph]
        )
    columns |= {at: column for at, column in ((node.start, start), (node.end, end)) if isinstance(at, str)}
    return Rows(columns, found.start, found.end, found.n).take(keep)


def touched(node: ClosureNode, changed: Ints, edges: Rows) -> Ints:
    """The nodes from which a path may lead through steps that begin at these, whenever: the beginnings of all paths that may change."""
    ids = np.unique(changed)
    zeros, ones = np.zeros(len(edges), np.int64), np.ones(len(edges), np.int64)
    steps = steps_of(Rows(edges.columns, zeros, ones, ones), node.there, node.here, None)
    zeros, ones = np.zeros(len(ids), np.int64), np.ones(len(ids), np.int64)
    first = Rows({SEED: zeros, NODE: ids}, zeros, ones, ones)
    return np.unique(reached(first, lambda rows: prolonged(rows, steps), True, node.many).columns[NODE])
