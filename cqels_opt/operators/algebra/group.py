"""GROUP BY with its aggregates: for each group a step function of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cqels_opt.operators.aggregate import grouped
from cqels_opt.operators.algebra.expression_rows import with_value
from cqels_opt.operators.algebra.operator import Keyed, Maintenance, no_rows, variables_read, with_variables
from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.expressions import needs_instant
from cqels_opt.operators.interval_join import covered
from cqels_opt.operators.rows import HIDDEN, Rows, concat, empty
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.query.algebra import Aggregate, Expression, Variable


@dataclass(frozen=True, slots=True)
class GroupNode(Keyed):
    """GROUP BY. ``whole`` names the variables that COUNT(DISTINCT *) reads. Without keys there is one group.

    ``implicit``: this group exists also without members.
    """

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    implicit: bool
    whole: tuple[str, ...] = ()

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The keys."""
        return self.keys

    @property
    def values(self) -> tuple[Expression, ...]:
        """The arguments of the aggregates."""
        return tuple(spec.argument for _, spec in self.aggregates if spec.argument is not None)

    @property
    def own_variables(self) -> Names:
        """The keys, the aggregates, and what these read."""
        return variables_read(self).union(self.keys, self.whole, (name for name, _ in self.aggregates))

    def output(self, schema: Schema) -> Names:
        """The keys and the aggregates."""
        return frozenset([*self.keys, *(v for v, _ in self.aggregates)])

    def certain(self, schema: Schema) -> Names:
        """The keys that the input binds on every row."""
        return self.input.certain(schema).intersection(self.keys)

    # ------------------------------------------------------------------ evaluation
    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """The groups of all rows."""
        plain = []
        for variable, spec in self.aggregates:
            if spec.argument is not None and needs_instant(spec.argument):
                rows = with_value(rows, f"{HIDDEN}{variable}", spec.argument, scope)
                spec = replace(spec, argument=Variable(f"{HIDDEN}{variable}"))
            plain.append((variable, spec))
        return grouped(rows, self.keys, plain, self.implicit, scope.terms, scope.low, scope.high, self.whole)

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The groups with one of the keys: from their sums where these are kept."""
        if self in scope.groups:
            (below,) = self.shares(keys, scope.schema)
            return scope.groups[self].rows(below)
        return Keyed.evaluate(self, scope, keys)

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The groups with members that change: from their sums where these are kept."""
        if (kept := scope.groups.get(self)) is None:
            return Keyed.changing(self, scope, share)
        touched = kept.touched
        return scope.unsteady(kept.rows(touched)) if touched.some else no_rows(self, scope)

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The groups of each outer row. An implicit group exists also at the times at which it has no members."""
        plain = replace(self, keys=(*self.keys, outer.mark), implicit=False)
        rows = outer.added(self.input.for_each(outer, scope))
        found = concat([empty([*plain.keys]), plain.apply(rows, scope)])
        if not self.implicit:
            return found
        owner = found.columns[outer.mark] - 1
        bare = covered(outer.rows.only([outer.mark]), owner, found.start, found.end)[1]
        nothing = grouped(empty(), (), self.aggregates, True, scope.terms, scope.low, scope.high)
        blank = {v: np.full(len(bare), column[0]) for v, column in nothing.columns.items()}
        return concat([found, Rows({**bare.columns, **blank}, bare.start, bare.end, bare.n)])

    # ------------------------------------------------------------------ sums
    @property
    def additive(self) -> bool:
        """Whether its aggregates are sums over members that enter and leave, so that they can be kept from step to step."""
        if self.depends_on_instant:
            return False
        return all(spec.function in ("COUNT", "SUM", "AVG") and not spec.distinct for _, spec in self.aggregates)

    @property
    def _only_counts(self) -> bool:
        """Whether it is kept as sums that never need a member again."""
        return self.additive and all(spec.function == "COUNT" for _, spec in self.aggregates)

    def lookups(self, names: Names, schema: Schema) -> Iterator[tuple[str, Names]]:
        """Those of the members, unless these are never needed again."""
        return iter(()) if self._only_counts else Keyed.lookups(self, names, schema)

    def lookups_of_changes(self, schema: Schema) -> Iterator[tuple[str, Names]]:
        """Those of the members, unless these are never needed again."""
        return iter(()) if self._only_counts else Keyed.lookups_of_changes(self, schema)

    # ------------------------------------------------------------------ EXPLAIN
    @property
    def title(self) -> str:
        """GROUP BY, or aggregates where there is one group."""
        return "GROUP BY" if self.keys else "aggregates"

    def maintenance(self, schema: Schema) -> tuple[Maintenance, str] | None:
        """As sums where that is possible."""
        if self.additive and self.moves:
            return "sums", with_variables(self.title, self.keys)
        return Keyed.maintenance(self, schema)
