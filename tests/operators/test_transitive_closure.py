"""Paths of repeated steps over rows with intervals are, at every instant, what following the steps there gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_runs import Cut, World, register

from cqels_opt.compiler import block_builder
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.algebra.closure import ClosureNode
from cqels_opt.operators.algebra.operator import Leaf
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.operators.term_table import TermTable
from cqels_opt.operators.transitive_closure import PathsTooManyError
from cqels_opt.planner.explain import explained
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.rdf.ids import PUBLIC
from cqels_opt.verify import Element

from .interval_rows import HORIZON, Plain, plain_rows, rows_of, snapshots


@dataclass(frozen=True, slots=True, eq=False)
class Given(Leaf):
    """An input with these rows."""

    variables: tuple[str, ...]
    rows: Sequence[Plain] = ()
    blocks: Names = frozenset()

    def output(self, schema: Schema) -> Names:
        return frozenset(self.variables)

    certain = output

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        return keys.within(rows_of(self.variables, self.rows))


EDGES, NODES = Given(("h", "t")), Given(("h",))
VALUES = 5
ends = st.one_of(st.just("x"), st.just("y"), st.integers(1, VALUES))


def at_instant(plain: list[Plain], at: int) -> set[tuple[int, ...]]:
    return {row for row, start, end, _ in plain if start <= at < end}


def paths_at(node: ClosureNode, edges: set[tuple[int, ...]], nodes: set[int]) -> set[tuple[int, int]]:
    """By definition: from each node along the edges."""
    found = {(n, n) for n in nodes} if node.nodes is not None else set()
    new = edges
    while new - found:
        found |= new
        new = {(a, d) for a, b in found for c, d in edges if b == c} if node.many else set()
    return found


def run(node: ClosureNode, edges: list[Plain], nodes: list[Plain], keys: KeyFilter, static: bool) -> Rows:
    steps = Given(("h", "t", "g")[: 3 if node.graph else 2], edges, frozenset() if static else frozenset("b"))
    constant = isinstance(node.start, int) or isinstance(node.end, int)
    of_length_zero = Given((), [((), 0, HORIZON, 1)]) if constant else Given(("h",), nodes)
    inputs = [steps] if node.nodes is None else [steps, of_length_zero]
    return node.with_inputs(inputs).evaluate(scope(), keys)


def scope(most: int | None = None) -> Scope:
    return Scope({}, "", TermTable(PUBLIC, lambda _ids: []), np.arange(HORIZON), 0, {}, most=most)


@given(
    plain_rows(2, VALUES, most=12), ends, ends, st.booleans(), st.booleans(), st.booleans(), st.sets(st.integers(1, VALUES)), ends
)
def test_paths_at_each_instant(
    edges: list[Plain],
    start: str | int,
    end: str | int,
    zero: bool,
    many: bool,
    static: bool,
    wanted: set[int],
    of: str | int,
) -> None:
    node = ClosureNode(EDGES, NODES if zero else None, "h", "t", start, end, None, many or not zero)
    nodes = [((n,), row[1], row[2], row[3]) for row in edges for n in row[0]]
    keys = (
        KeyFilter((of,), (np.array(sorted(wanted), np.int64),), bool(wanted))
        if of in (start, end) and isinstance(of, str)
        else EVERY
    )
    got = snapshots(keys.within(run(node, edges, nodes, keys, static)), node.variables)
    expected: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for at in range(HORIZON):
        there = {n for (n,) in at_instant(nodes, at)} | {n for n in (start, end) if isinstance(n, int)}
        for pair in paths_at(node, at_instant(edges, at), there):
            row: dict[str, int] = {}
            fits = all(
                n == value if isinstance(n, int) else row.setdefault(n, value) == value for n, value in zip((start, end), pair)
            )
            if fits and (keys.all or row[keys.variables[0]] in wanted):
                expected[at, tuple(row[v] for v in node.variables)] += 1
    assert got == expected


@given(plain_rows(3, 3, most=10), st.booleans())
def test_paths_stay_in_their_graph(edges: list[Plain], static: bool) -> None:
    node = ClosureNode(EDGES, None, "h", "t", "x", "y", "g", True)
    keys = KeyFilter(("x",), (np.array([1, 2], np.int64),))
    got = snapshots(run(node, edges, [], keys if static else EVERY, static), ("g", "x", "y"))
    expected = {
        (at, (graph, *pair))
        for at in range(HORIZON)
        for graph in range(1, 4)
        for pair in paths_at(node, {row[:2] for row in at_instant(edges, at) if row[2] == graph}, set())
        if not static or pair[0] in (1, 2)
    }
    assert got == Counter(expected)


@given(plain_rows(2, VALUES), st.sets(st.integers(1, VALUES), min_size=1))
def test_what_a_change_may_touch(edges: list[Plain], changed: set[int]) -> None:
    node = ClosureNode(EDGES, None, "h", "t", "x", "y", None, True)
    all_edges = {row[0] for row in edges}
    expected = changed | {a for a, b in paths_at(node, all_edges, set()) if b in changed}
    assert set(node.leading_to(np.array(sorted(changed)), rows_of(("h", "t"), edges)).tolist()) == expected


def test_a_path_with_too_many_pairs_is_given_up() -> None:
    edges = [((i, i + 1), 0, HORIZON, 1) for i in range(1, 40)]
    node = ClosureNode(Given(("h", "t"), edges), None, "h", "t", "x", "y", None, True)
    with pytest.raises(PathsTooManyError, match="more than 100 pairs of ends"):
        node.evaluate(scope(most=100), EVERY)


# ------------------------------------------------------------------ in queries
PREFIX = "PREFIX : <http://ex.org/> "


def place(name: str) -> str:
    return f"<http://ex.org/{name}>"


def world() -> World:
    part, at = place("part"), place("at")
    static = [(place(f"x{i}"), part, place(f"x{i + 1}")) for i in range(6)]
    stream = [
        Element(1000 * i, ((place("a"), at, place(f"x{i % 4}")), (place(f"x{i % 3}"), part, place("x0")))) for i in range(8)
    ]
    return World({"http://ex.org/S": [stream]}, static)


QUERY = f"{PREFIX} SELECT ?x ?y FROM NAMED :S [RANGE 2s] AS ?w WHERE {{ GRAPH ?w {{ :a :at ?x }} ?x :part* ?y FILTER(?x != ?y) }}"


def test_a_static_path_is_one_relation_of_a_plan_unless_it_has_too_many_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = register(QUERY, world(), tmp_path / "1")
    assert [s.name for s in whole.program.blocks[0].statics] == ["path"]
    monkeypatch.setattr(block_builder, "PAIRS", 5)
    asked = register(QUERY, world(), tmp_path / "2")
    assert isinstance(asked.program.tree, p.ProjectNode) and isinstance(asked.program.tree.input, p.FilterNode)
    assert "followed from the bound ends: PATH ?x ?y\n" in explained([asked.program], PlannerOptions(), "text", 0)
    answers = whole.run().answers
    assert sum(answers.values()) > 0 and answers == asked.run(Cut("3")).answers
    assert whole.judged(answers).equal


def test_a_path_in_a_window_is_recomputed_by_key(tmp_path: Path) -> None:
    text = f"{PREFIX} SELECT ?x ?y FROM NAMED :S [RANGE 2s] AS ?w WHERE {{ GRAPH ?w {{ ?x :part+ ?y }} }}"
    query = register(text, world(), tmp_path)
    assert "recomputed by key: PATH ?x ?y\n" in explained([query.program], PlannerOptions(), "text", 0)
    assert query.judged(query.run(Cut("1")).answers).equal
