"""DESCRIBE: the descriptions of resources (SPARQL 1.1 §16.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cqels_opt.operators.algebra.operator import Operator, changing, evaluate, no_rows
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.algebra.triple import TRIPLE, may_stand
from cqels_opt.operators.interval_join import disjoint, join
from cqels_opt.operators.rows import Rows, concat, empty
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.rdf.ids import KIND_BLANK


@dataclass(frozen=True, slots=True)
class DescribeNode(Operator):
    """The triples of a graph (its columns are :data:`TRIPLE`) about the values of some variables of the input.

    They are those with such a value as subject and, recursively, those about the blank nodes in their object places (concise bounded
    descriptions).
    """

    input: Operator
    graph: Operator
    variables: tuple[str, ...]

    title = "DESCRIBE"

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The resources and the graph."""
        return (self.input, self.graph)

    def with_inputs(self, inputs: Sequence[Operator]) -> DescribeNode:
        """The descriptions of other resources, or from another graph."""
        resources, graph = inputs
        return replace(self, input=resources, graph=graph)

    def output(self, schema: Schema) -> Names:
        """The columns of triples."""
        return frozenset(TRIPLE)

    certain = output

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """All triples of all descriptions."""
        subject, _, item = TRIPLE
        resources = evaluate(self.input, scope)
        asked = [
            Rows({subject: column}, resources.start, resources.end, resources.n) for column in resources.values(self.variables)
        ]
        reached = disjoint(concat([empty([subject]), *asked]))
        reached = reached.take(reached.columns[subject] != 0)
        while True:
            found = join(reached, evaluate(self.graph, scope, KeyFilter.of(reached, [subject]))).only(TRIPLE)
            blank = found.take(may_stand(found.columns[item], (KIND_BLANK,)))
            onward = Rows({subject: blank.columns[item]}, blank.start, blank.end, blank.n)
            wider = disjoint(concat([reached, onward]))
            if _extent(wider) == _extent(reached):
                return found
            reached = wider

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """Everything as soon as anything changes."""
        some = any(len(changing(inner, scope)) for inner in self.inputs)
        return scope.unsteady(evaluate(self, scope)) if some else no_rows(self, scope)

    def lookups(self, names: Names, schema: Schema) -> Iterator[tuple[str, Names]]:
        """Those of all resources, and the triples of the graph by subject."""
        yield from self.input.lookups(frozenset(), schema)
        yield from self.graph.lookups(frozenset(TRIPLE[:1]), schema)

    def lookups_of_changes(self, schema: Schema) -> Iterator[tuple[str, Names]]:
        """The same."""
        return self.lookups(frozenset(), schema)


def _extent(rows: Rows) -> int:
    """How long the rows are valid in all: disjoint rows that only grow have grown if this has."""
    return int((rows.end - rows.start).sum())
