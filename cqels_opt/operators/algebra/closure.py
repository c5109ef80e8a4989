"""Paths of repeated steps: ``*``, ``+`` and ``?``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cqels_opt.operators.algebra.operator import Maintenance, Operator, changing, evaluate, no_rows, with_variables
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.operators.transitive_closure import NODE, SEED, prolonged, reached, steps_of
from cqels_opt.stats.frequencies import distinct_values


@dataclass(frozen=True, slots=True)
class ClosureNode(Operator):
    """Paths of repeated steps, each pair of ends once. ``edges`` binds ``here`` and ``there``; ``nodes`` has the paths of length zero.

    An end is the name of a variable or the id of a term. ``graph`` is the variable of the graph that a path stays in. With a constant
    end ``nodes`` does not bind ``here``.
    """

    edges: Operator
    nodes: Operator | None
    here: str
    there: str
    start: str | int
    end: str | int
    graph: str | None
    many: bool

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The steps, and the paths of length zero where there are any."""
        return (self.edges,) if self.nodes is None else (self.edges, self.nodes)

    def with_inputs(self, inputs: Sequence[Operator]) -> ClosureNode:
        """The paths over other steps."""
        edges, *nodes = inputs
        return replace(self, edges=edges, nodes=nodes[0] if nodes else None)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it binds, on every row."""
        return tuple(dict.fromkeys(v for v in (self.graph, self.start, self.end) if isinstance(v, str)))

    @property
    def own_variables(self) -> Names:
        """The ends of the paths and of their steps."""
        return frozenset((self.here, self.there, *self.variables))

    def output(self, schema: Schema) -> Names:
        """The ends, and the graph."""
        return frozenset(self.variables)

    certain = output

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """The graph."""
        return frozenset(names) & {self.graph or ""}

    def touched_by(self, schema: Schema) -> tuple[str, ...]:
        """The start, where both ends are variables."""
        return (self.start,) if isinstance(self.start, str) and isinstance(self.end, str) else ()

    # ------------------------------------------------------------------ evaluation
    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The paths that begin, or end, at one of the keys or at a constant.

        Static steps are looked up round by round from the ends that are reached; steps that move are read once.
        """
        seeds, backwards = self._seeds(keys)
        here, there = (self.there, self.here) if backwards else (self.here, self.there)

        def follow(rows: Rows) -> Rows:
            on = {NODE: here} | ({self.graph: self.graph} if self.graph is not None and self.graph in rows.columns else {})
            columns = {own: rows.columns[v] for v, own in on.items()}
            wanted = KeyFilter.of(Rows(columns, rows.start, rows.end, rows.n), list(on.values()))
            return prolonged(rows, steps_of(evaluate(self.edges, scope, wanted), here, there, self.graph))

        if seeds is None or self.edges.moves:
            steps = steps_of(evaluate(self.edges, scope), here, there, self.graph)

            def follow(rows: Rows) -> Rows:
                return prolonged(rows, steps)

        if self.nodes is not None:
            first = self._of_length_zero(self.nodes, seeds, scope)
        elif seeds is not None:
            first = scope.always(Rows({SEED: seeds, NODE: seeds}, seeds, seeds, np.ones(len(seeds), np.int64)))
        else:
            edges = evaluate(self.edges, scope)
            columns = {**self._graph_of(edges), SEED: edges.columns[here], NODE: edges.columns[there]}
            first = Rows(columns, edges.start, edges.end, edges.n)
        known = self.nodes is not None or seeds is None
        return self._named(reached(first, follow, known, self.many, scope.most), backwards)

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The paths that a change of steps or nodes may concern: all from where one may lead through what changes."""
        changed = [changing(inner, scope) for inner in self.inputs]
        if not any(map(len, changed)):
            return no_rows(self, scope)
        if isinstance(self.start, int) or isinstance(self.end, int):
            return scope.unsteady(evaluate(self, scope))
        ids = distinct_values(np.concatenate([rows.columns[self.here] for rows in changed]))
        starts = self.leading_to(ids, evaluate(self.edges, scope))
        return scope.unsteady(share.within(evaluate(self, scope, KeyFilter((self.start,), (starts,)))))

    def _seeds(self, keys: KeyFilter) -> tuple[Ints | None, bool]:
        """Where paths are looked for from (None: everywhere), and whether these are their ends."""
        for at, backwards in ((self.start, False), (self.end, True)):
            if isinstance(at, int):
                return np.array([at], np.int64), backwards
        if keys.all or keys.parts > 1:
            return None, False
        known = {v: distinct_values(column) for v, column in zip(keys.variables, keys.columns)}
        found = [(known[str(at)], backwards) for at, backwards in ((self.start, False), (self.end, True)) if at in known]
        return min(found, key=lambda one: len(one[0]), default=(None, False))

    def _of_length_zero(self, nodes: Operator, seeds: Ints | None, scope: Scope) -> Rows:
        if isinstance(self.start, int) or isinstance(self.end, int):
            assert seeds is not None
            rows = evaluate(nodes, scope)
            at = np.full(len(rows), seeds[0])
        else:
            rows = evaluate(nodes, scope, EVERY if seeds is None else KeyFilter((self.here,), (seeds,), len(seeds) > 0))
            at = rows.columns[self.here]
        return Rows({**self._graph_of(rows), SEED: at, NODE: at}, rows.start, rows.end, rows.n)

    def _graph_of(self, rows: Rows) -> dict[str, Ints]:
        return {} if self.graph is None else {self.graph: rows.columns[self.graph]}

    def _named(self, found: Rows, backwards: bool) -> Rows:
        """Pairs under the names of their ends; where an end is a constant, or both are one variable, those that have it so."""
        start, end = (found.columns[v] for v in ((NODE, SEED) if backwards else (SEED, NODE)))
        keep = np.ones(len(found), bool)
        for at, column in ((self.start, start), (self.end, end)):
            if isinstance(at, int):
                keep &= column == at
        if self.start == self.end:
            keep &= start == end
        columns = {} if self.graph is None else {self.graph: found.columns.get(self.graph, np.zeros(len(found), np.int64))}
        if self.graph in (self.start, self.end):
            keep &= np.logical_and.reduce(
                [columns[str(self.graph)] == c for at, c in ((self.start, start), (self.end, end)) if at == self.graph]
            )
        columns |= {at: column for at, column in ((self.start, start), (self.end, end)) if isinstance(at, str)}
        return Rows(columns, found.start, found.end, found.n).take(keep)

    def leading_to(self, ids: Ints, edges: Rows) -> Ints:
        """The nodes from which a path may lead to one of some nodes, at any time."""
        zeros, ones = np.zeros(len(edges), np.int64), np.ones(len(edges), np.int64)
        steps = steps_of(Rows(edges.columns, zeros, ones, ones), self.there, self.here, None)
        zeros, ones = np.zeros(len(ids), np.int64), np.ones(len(ids), np.int64)
        first = Rows({SEED: zeros, NODE: ids}, zeros, ones, ones)
        return distinct_values(reached(first, lambda rows: prolonged(rows, steps), True, self.many).columns[NODE])

    # ------------------------------------------------------------------ EXPLAIN
    def maintenance(self, schema: Schema) -> tuple[Maintenance, str] | None:
        """Static paths are followed from the ends that are bound."""
        named = with_variables("PATH", self.variables)
        if not self.moves:
            return "steps", named
        return "by_key" if self.touched_by(schema) else "whole", named
