"""Operators over a left and a right side whose rows concern each other where they are compatible: join, OPTIONAL, MINUS, EXISTS."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from cqels_opt.operators.algebra.operator import Operator, changing, evaluate, has_instant
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.expressions import needs_instant
from cqels_opt.operators.interval_join import combine, compatible_pairs, disjoint, visible
from cqels_opt.operators.rows import Ints, Rows, concat
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter

OWNER = "#owner"


@dataclass(frozen=True, slots=True)
class TwoSided(Operator):
    """An operator whose first two inputs are its left and right side; left rows do not concern each other.

    Rows of both sides concern each other only where they agree on the variables that both bind on every row.
    """

    left: Operator
    right: Operator

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """Both sides."""
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Operator]) -> Self:
        """The operator over other sides."""
        left, right = inputs
        return replace(self, left=left, right=right)

    @property
    def correlated(self) -> tuple[Operator, ...]:
        """The patterns that are evaluated for each row, so that no keys identify the rows that a change of the pattern affects."""
        return ()

    @property
    def depends_on_instant(self) -> bool:
        """Whether its expressions do, or a pattern that is evaluated for each row."""
        return any(map(needs_instant, self.conditions)) or any(map(has_instant, self.correlated))

    def output(self, schema: Schema) -> Names:
        """By default the variables of the left side."""
        return self.inputs[0].output(schema)

    def certain(self, schema: Schema) -> Names:
        """By default what the left side binds."""
        return self.inputs[0].certain(schema)

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """By default those of the left side: its rows stay as they are."""
        return frozenset() if side else self.output(schema).intersection(names)

    def touched_by(self, schema: Schema) -> tuple[str, ...]:
        """The variables on which compatible rows of both sides surely agree."""
        if self.correlated:
            return ()
        left, right = self.inputs[:2]
        return tuple(sorted(left.certain(schema) & right.certain(schema)))

    def first_side(self, names: Collection[str], schema: Schema) -> int:
        """The side that is read first; of the other side, the rows that concern its rows are read."""
        return 0

    @abstractmethod
    def apply(self, left: Rows, right: Rows, scope: Scope) -> Rows:
        """The operator over rows of both sides."""

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """One side is read by the keys, the other by the rows of the first."""
        sides, schema = self.inputs[:2], scope.schema
        first = self.first_side(keys.variables, schema)
        other = sides[1 - first]
        rows = evaluate(sides[first], scope, keys.narrowed(self.below(first, keys.variables, schema)))
        wanted = keys_for(other, rows, self.touched_by(schema), scope) if not keys.all or not other.moves else EVERY
        found = evaluate(other, scope, wanted)
        return self.apply(found, rows, scope) if first else self.apply(rows, found, scope)

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The left rows that change or that a change of the right side concerns, with the right rows that concern them."""
        left, right, *tested = self.inputs
        on = self.touched_by(scope.schema)
        mine, others, *_ = self.shares(share, scope.schema)
        new = changing(left, scope, mine)
        touched = EVERY
        if not self.depends_on_instant and not any(inner.has_changes(scope) for inner in tested):
            touched = KeyFilter.of(changing(right, scope, others), on)
        old = mine.within(touched.within(evaluate(left, scope, touched)))
        rows = concat([old, touched.outside(new)])
        return scope.unsteady(self.apply(rows, evaluate(right, scope, keys_for(right, rows, on, scope)), scope))

    def shares(self, share: KeyFilter, schema: Schema) -> list[KeyFilter]:
        """The left side takes part in the share; the right side as far as its rows agree with left rows of the share."""
        mine = share.narrowed(self.below(0, share.variables, schema))
        return [mine, mine.narrowed(self.touched_by(schema)), *(EVERY for _ in self.inputs[2:])]

    def lookups(self, names: Names, schema: Schema) -> Iterator[tuple[str, Names]]:
        """Of the side that is read first, and of the other side by the variables of both."""
        first = self.first_side(names, schema)
        yield from self.inputs[first].lookups(self.below(first, names, schema), schema)
        yield from self.inputs[1 - first].lookups(frozenset(self.touched_by(schema)), schema)

    def lookups_of_changes(self, schema: Schema) -> Iterator[tuple[str, Names]]:
        """Of both sides by the variables of both."""
        for side in self.inputs[:2]:
            yield from side.lookups(frozenset(self.touched_by(schema)), schema)

    def divisible_by(self, names: Names, schema: Schema) -> Names:
        """Those that reach the left side and, where it moves, the right side."""
        if not self.moves:
            return names
        if self.correlated:
            return frozenset()
        left, right = self.inputs[:2]
        found = left.divisible_by(self.below(0, names, schema), schema)
        return found & right.divisible_by(found.intersection(self.touched_by(schema)), schema) if right.moves else found


def keys_for(other: Operator, rows: Rows, on: Sequence[str], scope: Scope) -> KeyFilter:
    """The keys of the rows of one side that concern given rows of the other side."""
    if not other.moves:  # static data have an index on every variable, so all variables that these rows bind can be keys
        on = [v for v in sorted(other.certain(scope.schema)) if v in rows.columns and (rows.columns[v] != 0).all()]
    return KeyFilter.of(rows, on)


def with_variables_of(left: Rows, right: Rows) -> Rows:
    """The right rows without the variables that left rows lack: when some right row is valid, but not how many and which."""
    return disjoint(right.only(v for v in visible(left) if v in right.columns))


def common_intervals(left: Rows, right: Rows, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    """For each pair of rows the left row, and the interval in which both are valid."""
    return a, np.maximum(left.start[a], right.start[b]), np.minimum(left.end[a], right.end[b])


def matches(left: Rows, right: Rows, passing: Callable[[Rows], Rows]) -> tuple[Ints, Rows]:
    """The joined rows that pass a condition, and the left row that each comes from."""
    a, b = compatible_pairs(left, right)
    joined = passing(combine(left, right, a, b).with_column(OWNER, a))
    owner = joined.columns.pop(OWNER)
    return owner, joined
