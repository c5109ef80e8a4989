"""The interface of an operator above the joins: its inputs, its variables, its evaluation, and how it follows a change of its inputs.

**Rows.** Before evaluation, the intervals of rows are mapped from times to places in the list of instants of the step, ``[i, j)``. Every
operator computes, for each instant, the rows that its definition gives for the rows of its inputs at that instant.

**Keys.** An operator may be asked for the rows that have some keys, the values of some variables. It may return more of its rows, never
fewer. ``below`` describes on which variables such a restriction also holds for an input.

**Changes.** ISTREAM and DSTREAM emit how often a row occurs more, or less, at an instant than at the instant before. So a row that occurs
equally often at all instants of a step may be left out, of the answers and of the inputs of operators. The *changing* rows of an
operator are such that its complete rows have, for each tuple of values, some constant number more at every instant. Three kinds of
operators find them in different ways:

- :class:`RowWise`: each input row contributes alone. The operator is applied to the changing rows of its input.
- :class:`Keyed`: rows with different values of ``partition_by`` do not concern each other. The operator is applied to all rows of the
  partitions that have a changing row.
- :class:`~cqels_opt.operators.algebra.two_sided.TwoSided`: left rows do not concern each other. The operator is applied to the changing
  left rows, to the left rows that agree with a changing right row on the variables that both sides bind on every row, and to the right
  rows that agree with any of these.

A keyed or two-sided operator without such variables is applied to everything as soon as anything changes. An operator whose expressions
depend on the instant (NOW, RAND) is applied to everything in every step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

from cqels_opt.operators.algebra.outer_rows import OuterRows
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.expressions import needs_instant
from cqels_opt.operators.operator_work import OperatorWork, TreeWork
from cqels_opt.operators.rows import Rows, empty, is_nameable
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.query.algebra import Expression
from cqels_opt.query.scope import variables as read_by

Maintenance: TypeAlias = Literal["by_key", "sums", "whole", "steps"]
"""How an operator is kept up to date: recomputed by key, kept as sums, recomputed whole, or followed from the bound ends of a path."""


class Operator(ABC):
    """An operator with its inputs, down to the blocks."""

    __slots__ = ()

    # ------------------------------------------------------------------ the tree
    @property
    @abstractmethod
    def inputs(self) -> tuple[Operator, ...]:
        """The operators that it reads."""

    @abstractmethod
    def with_inputs(self, inputs: Sequence[Operator]) -> Operator:
        """The operator over other inputs."""

    @property
    def blocks(self) -> Names:
        """The names of the blocks that it reads, directly or not."""
        return frozenset[str]().union(*(inner.blocks for inner in self.inputs))

    @property
    def moves(self) -> bool:
        """Whether a block is read, so that rows begin and end."""
        return bool(self.blocks)

    # ------------------------------------------------------------------ expressions and variables
    @property
    def conditions(self) -> tuple[Expression, ...]:
        """The conditions that rows must pass."""
        return ()

    @property
    def values(self) -> tuple[Expression, ...]:
        """The expressions whose values it uses."""
        return ()

    @property
    def own_variables(self) -> Names:
        """The variables that it binds, reads or lists itself: what its inputs must not drop."""
        return variables_read(self)

    @property
    def depends_on_instant(self) -> bool:
        """Whether its result for the same rows can differ from instant to instant."""
        return any(map(needs_instant, (*self.conditions, *self.values)))

    @abstractmethod
    def output(self, schema: Schema) -> Names:
        """The variables that its rows may bind, without hidden columns."""

    @abstractmethod
    def certain(self, schema: Schema) -> Names:
        """The variables that are bound on every row, as far as this is known."""

    @property
    def row_wise(self) -> bool:
        """Whether each row comes from one row of one block: then a live row that neither begins nor ends changes nothing."""
        return False

    @property
    def ordered(self) -> bool:
        """Whether its rows have an order that answers show."""
        return False

    # ------------------------------------------------------------------ evaluation; see the functions evaluate() and changing()
    @abstractmethod
    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The rows that have one of the keys, and perhaps others."""

    @abstractmethod
    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The changing rows that have one of the keys of a share, and perhaps others."""

    def for_each(self, outer: OuterRows, scope: Scope) -> Rows:
        """The rows for each of some outer rows: within a pattern of EXISTS. By default all its rows, joined with the outer rows."""
        on = [v for v in sorted(self.certain(scope.schema)) if v in outer.rows.columns and (outer.rows.columns[v] != 0).all()]
        return outer.joined(evaluate(self, scope, KeyFilter.of(outer.rows, on) if on else EVERY))

    def has_changes(self, scope: Scope) -> bool:
        """Whether rows begin or end in the step in any block that it reads."""
        return any(inner.has_changes(scope) for inner in self.inputs)

    def all_change(self, scope: Scope) -> bool:
        """Whether each of its rows begins or ends in the step, as far as this is known at little cost."""
        return False

    # ------------------------------------------------------------------ keys
    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """Those of some variables on which a restriction of its rows is a restriction of an input's rows as well."""
        return frozenset()

    def shares(self, share: KeyFilter, schema: Schema) -> list[KeyFilter]:
        """The part of a share that each input can be restricted to."""
        return [share.narrowed(self.below(side, share.variables, schema)) for side, _ in enumerate(self.inputs)]

    def touched_by(self, schema: Schema) -> tuple[str, ...]:
        """The variables by whose values it finds the rows that a change concerns; none: a change concerns all rows."""
        return ()

    def lookups(self, names: Names, schema: Schema) -> Iterator[tuple[str, Names]]:
        """The blocks, and the variables of their rows, that finding rows by the values of some variables looks up."""
        for side, inner in enumerate(self.inputs):
            yield from inner.lookups(self.below(side, names, schema), schema)

    def lookups_of_changes(self, schema: Schema) -> Iterator[tuple[str, Names]]:
        """The look-ups that find its changing rows, after those of its inputs."""
        return iter(())

    def divisible_by(self, names: Names, schema: Schema) -> Names:
        """Those of some variables by whose values its work can be divided: all block rows that a row comes from have its values."""
        if self.moves:
            for side, inner in enumerate(self.inputs):
                names = inner.divisible_by(self.below(side, names, schema), schema)
        return names

    # ------------------------------------------------------------------ EXPLAIN
    @property
    def title(self) -> str:
        """Its name in EXPLAIN's line on the operators above the joins; empty for one that is not shown."""
        return ""

    def maintenance(self, schema: Schema) -> tuple[Maintenance, str] | None:
        """How it is kept up to date, and the text that EXPLAIN shows; None for an operator that is not shown."""
        if not self.title or not self.moves:
            return None
        on = self.touched_by(schema)
        return "by_key" if on and not self.depends_on_instant else "whole", with_variables(self.title, on)


def evaluate(operator: Operator, scope: Scope, keys: KeyFilter = EVERY) -> Rows:
    """The rows of an operator within the horizon: those that have one of the keys, and perhaps others."""
    if not keys.some:
        return no_rows(operator, scope)
    with scope.work.running(operator) as work:
        rows = operator.evaluate(scope, keys)
    if work is not None:
        work.give(rows)
    return rows


def changing(operator: Operator, scope: Scope, share: KeyFilter = EVERY) -> Rows:
    """The changing rows of an operator: those that have one of the keys of a share, and perhaps others."""
    if scope.low > 0:  # no instant was reported before: every row begins
        return evaluate(operator, scope, share)
    with scope.work.running(operator) as work:
        rows = operator.changing(scope, share)
    if work is not None:
        work.give(rows)
    return rows


def no_rows(operator: Operator, scope: Scope) -> Rows:
    """No rows, with the operator's columns."""
    return empty(sorted(operator.output(scope.schema)))


def inputs_first(operator: Operator) -> Iterator[Operator]:
    """All operators of a tree, each after its inputs."""
    for inner in operator.inputs:
        yield from inputs_first(inner)
    yield operator


def has_instant(operator: Operator) -> bool:
    """Whether an operator, or one below it, can have other results for the same rows from instant to instant."""
    return operator.depends_on_instant or any(map(has_instant, operator.inputs))


def variables_read(operator: Operator) -> Names:
    """The variables that the expressions of an operator read."""
    return frozenset[str]().union(*map(read_by, (*operator.conditions, *operator.values)))


def work_of(tree: Operator) -> TreeWork:
    """A measure of the operators of a tree, in the order of :func:`inputs_first`."""
    return TreeWork({id(operator): OperatorWork() for operator in inputs_first(tree)})


def name_of(operator: Operator) -> str:
    """The name of an operator in lists of all operators of a tree."""
    return operator.title or type(operator).__name__.removesuffix("Node").lower()


def with_variables(title: str, variables: Collection[str]) -> str:
    """The name of an operator in EXPLAIN, with those of its variables that a query can write."""
    return " ".join([title, *(f"?{v}" for v in variables if is_nameable(v))])


# ------------------------------------------------------------------ kinds of operators
class Leaf(Operator):
    """An operator without inputs."""

    __slots__ = ()
    inputs = ()

    def with_inputs(self, inputs: Sequence[Operator]) -> Self:
        """The operator itself."""
        return self

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """None: its rows are valid always."""
        return no_rows(self, scope)


@dataclass(frozen=True, slots=True)
class Unary(Operator):
    """An operator with one input. By default its rows have the variables of this input."""

    input: Operator

    @property
    def inputs(self) -> tuple[Operator, ...]:
        """The input."""
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Operator]) -> Self:
        """The operator over another input."""
        (inner,) = inputs
        return replace(self, input=inner)

    def output(self, schema: Schema) -> Names:
        """The variables of the input."""
        return self.input.output(schema)

    def certain(self, schema: Schema) -> Names:
        """The variables that the input binds on every row."""
        return self.input.certain(schema)

    @abstractmethod
    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """The operator over rows of its input."""


@dataclass(frozen=True, slots=True)
class Restricting(Unary):
    """An operator whose rows have some ``variables`` of the input's, in the input's order."""

    variables: tuple[str, ...]

    @property
    def ordered(self) -> bool:
        """Whether the input is."""
        return self.input.ordered

    def output(self, schema: Schema) -> Names:
        """Those of the input that stay."""
        return self.input.output(schema).intersection(self.variables)

    def certain(self, schema: Schema) -> Names:
        """Those of the input that stay."""
        return self.input.certain(schema).intersection(self.variables)


class RowWise(Unary):
    """A function of each row of the input. By default it passes the values of all variables unchanged."""

    __slots__ = ()

    @property
    def row_wise(self) -> bool:
        """Whether the input is as well, and the result does not depend on the instant."""
        return not self.depends_on_instant and self.input.row_wise

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """All of them."""
        return frozenset(names)

    def maintenance(self, schema: Schema) -> tuple[Maintenance, str] | None:
        """Not shown, unless its result depends on the instant."""
        return Unary.maintenance(self, schema) if self.depends_on_instant else None

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The function of the input's rows that have one of the keys."""
        return self.apply(evaluate(self.input, scope, *self.shares(keys, scope.schema)), scope)

    def all_change(self, scope: Scope) -> bool:
        """Whether those of the input do."""
        return not self.depends_on_instant and self.input.all_change(scope)

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The function of the input's changing rows; of all rows where it depends on the instant."""
        if self.depends_on_instant:
            return scope.unsteady(self.apply(evaluate(self.input, scope), scope))
        return self.apply(changing(self.input, scope, *self.shares(share, scope.schema)), scope)


class Keyed(Unary):
    """A function of the rows of each partition: rows with different values of ``partition_by`` do not concern each other."""

    __slots__ = ()

    @property
    @abstractmethod
    def partition_by(self) -> tuple[str, ...]:
        """The variables whose values make the partitions; none: there is one partition."""

    @property
    def own_variables(self) -> Names:
        """The variables that make the partitions, and what the expressions read."""
        return variables_read(self).union(self.partition_by)

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """Those that make the partitions."""
        return frozenset(names).intersection(self.partition_by)

    def touched_by(self, schema: Schema) -> tuple[str, ...]:
        """A change concerns the partitions of the rows that change."""
        return self.partition_by

    def evaluate(self, scope: Scope, keys: KeyFilter) -> Rows:
        """The function of whole partitions that have one of the keys."""
        (below,) = self.shares(keys, scope.schema)
        return self.apply(below.within(evaluate(self.input, scope, below)), scope)

    def changing(self, scope: Scope, share: KeyFilter) -> Rows:
        """The function of the partitions that have changing rows."""
        if self.depends_on_instant:
            rows = evaluate(self.input, scope)
        else:
            rows = changing(self.input, scope, *self.shares(share, scope.schema))
            if not len(rows):
                return no_rows(self, scope)
            if not self.input.all_change(scope):
                touched = KeyFilter.of(rows, self.partition_by)
                rows = touched.within(evaluate(self.input, scope, touched))
        return scope.unsteady(self.apply(rows, scope))

    def lookups_of_changes(self, schema: Schema) -> Iterator[tuple[str, Names]]:
        """The input's rows by partition."""
        return self.input.lookups(frozenset(self.partition_by), schema)
